// SPDX-License-Identifier: GPL-2.0-only
// A bulk transfer over a chain of links in ns-3, for simulator.py.
//
// chain RATE_BPS LINKS DELAY_MS SECONDS QUEUE_PACKETS BUFFER_BYTES [count]
//
// Each link has the rate, a propagation delay, and a drop-tail queue at both ends. The transfer uses TCP Cubic with
// segments of 1448 bytes. The program prints the goodput in bit/s. With `count` it also prints the number of packets
// that all devices sent; counting takes time, so a run that is timed does not count.

#include <cstdlib>
#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

static uint64_t g_sent = 0;

static void
Sent(Ptr<const Packet>)
{
    g_sent++;
}

int
main(int argc, char* argv[])
{
    if (argc != 7 && argc != 8)
    {
        std::cerr << "usage: chain RATE_BPS LINKS DELAY_MS SECONDS QUEUE_PACKETS BUFFER_BYTES [count]\n";
        return 2;
    }
    const uint64_t rate = std::strtoull(argv[1], nullptr, 10);
    const uint32_t links = std::atoi(argv[2]);
    const uint32_t delay = std::atoi(argv[3]);
    const double seconds = std::atof(argv[4]);
    const uint32_t queue = std::atoi(argv[5]);
    const uint32_t buffer = std::atoi(argv[6]);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpCubic"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer));

    NodeContainer nodes;
    nodes.Create(links + 1);
    InternetStackHelper stack;
    stack.Install(nodes);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
    link.SetChannelAttribute("Delay", TimeValue(MilliSeconds(delay)));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queue)));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    TrafficControlHelper control;
    Ipv4InterfaceContainer last;
    for (uint32_t i = 0; i < links; i++)
    {
        NetDeviceContainer devices = link.Install(nodes.Get(i), nodes.Get(i + 1));
        last = addresses.Assign(devices);
        control.Uninstall(devices);
        addresses.NewNetwork();
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    PacketSinkHelper sinks("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5001));
    ApplicationContainer sink = sinks.Install(nodes.Get(links));
    BulkSendHelper senders("ns3::TcpSocketFactory", InetSocketAddress(last.GetAddress(1), 5001));
    senders.SetAttribute("MaxBytes", UintegerValue(0));
    senders.SetAttribute("SendSize", UintegerValue(131072));
    senders.Install(nodes.Get(0)).Start(Seconds(0));

    if (argc == 8)
    {
        Config::ConnectWithoutContext("/NodeList/*/DeviceList/*/$ns3::PointToPointNetDevice/PhyTxEnd",
                                      MakeCallback(&Sent));
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    std::cout << DynamicCast<PacketSink>(sink.Get(0))->GetTotalRx() * 8 / seconds << " " << g_sent << "\n";
    Simulator::Destroy();
    return 0;
}
