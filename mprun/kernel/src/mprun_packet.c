// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults of single packets. A line "INTERFACE NUMBER FAULT VALUE" in /proc/net/mprun_packets says what
 * happens to the packet with this number among those that arrive on the interface (its index), from 1.
 * ICMP does not count.
 *
 * drop 0          the packet is lost
 * delay NS        it continues after this time
 * duplicate NS    a copy of it arrives after this time
 * strip KIND      the TCP option of this kind is replaced by NOPs (RFC 9293 section 3.2)
 *
 * A packet is counted when the packet filters have accepted it and before it is routed. The file lists
 * the faults with a fifth word: 1 if the packet has come. Only the agent may write to it.
 */
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/mprun.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tcp.h>
#include <linux/version.h>
#include <net/checksum.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

static const char *const names[] = { "drop", "delay", "duplicate", "strip" };

enum action { DROP, DELAY, DUPLICATE, STRIP };

struct fault {
	struct list_head list;
	int interface;
	unsigned long long number, seen, value;
	enum action action;
};

struct faults {
	struct list_head list;
	bool has_hooks;
};

/* A packet that continues later. */
struct held {
	struct hrtimer timer;
	struct sk_buff *skb;
	struct net *net;
	int (*next)(struct net *net, struct sock *sk, struct sk_buff *skb);
};

static unsigned int faults_id;

static enum hrtimer_restart release(struct hrtimer *timer)
{
	struct held *held = container_of(timer, struct held, timer);
	struct net_device *device = held->skb->dev;

	rcu_read_lock();
	held->next(held->net, NULL, held->skb);
	rcu_read_unlock();
	dev_put(device);
	kfree(held);
	return HRTIMER_NORESTART;
}

/* Let a packet continue later. Takes the packet, also if there is no memory. */
static void hold(struct sk_buff *skb, const struct nf_hook_state *state, u64 ns)
{
	struct held *held = skb ? kmalloc(sizeof(*held), GFP_ATOMIC) : NULL;

	if (!held) {
		kfree_skb(skb);
		return;
	}
	held->skb = skb;
	held->net = state->net;
	held->next = state->okfn;
	/* its device, and so its namespace, stays */
	dev_hold(skb->dev);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init(&held->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	held->timer.function = release;
#else
	hrtimer_setup(&held->timer, release, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
#endif
	hrtimer_start(&held->timer, ns_to_ktime(ns), HRTIMER_MODE_REL_SOFT);
}

/* Return the protocol of a packet, behind the extension headers of IPv6. at: where its header begins; -1: nowhere. */
static u8 protocol_of(struct sk_buff *skb, u8 family, int *at)
{
	__be16 fragment = 0;
	u8 protocol;

	if (family == NFPROTO_IPV4) {
		*at = ip_is_fragment(ip_hdr(skb)) ? -1 : ip_hdrlen(skb);
		return ip_hdr(skb)->protocol;
	}
	protocol = ipv6_hdr(skb)->nexthdr;
	*at = ipv6_skip_exthdr(skb, sizeof(struct ipv6hdr), &protocol, &fragment);
	if (fragment)
		*at = -1;
	return protocol;
}

static void strip(struct sk_buff *skb, u8 family, u8 kind)
{
	int begin, at, end, length, i;
	struct tcphdr *tcp;
	u8 *bytes;

	if (protocol_of(skb, family, &begin) != IPPROTO_TCP || begin < 0 || skb_ensure_writable(skb, begin + sizeof(*tcp)))
		return;
	end = 4 * ((struct tcphdr *)(skb->data + begin))->doff;
	if (skb_ensure_writable(skb, begin + end))
		return;
	tcp = (struct tcphdr *)(skb->data + begin);
	bytes = (u8 *)tcp;
	for (at = sizeof(*tcp); at < end && bytes[at] != TCPOPT_EOL; at += length) {
		length = bytes[at] == TCPOPT_NOP ? 1 : at + 1 < end ? bytes[at + 1] : 0;
		if (length < 1 || (bytes[at] != TCPOPT_NOP && length < 2) || at + length > end)
			return;
		if (bytes[at] != kind)
			continue;
		for (i = at; i < at + length; i++) {
			/* the byte with its neighbour, as a part of the checksum */
			__be16 before = *(__be16 *)(bytes + (i & ~1)), after;

			bytes[i] = TCPOPT_NOP;
			after = *(__be16 *)(bytes + (i & ~1));
			inet_proto_csum_replace2(&tcp->check, skb, before, after, false);
		}
	}
}

static unsigned int arrive(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct faults *faults = net_generic(state->net, faults_id);
	unsigned int verdict = NF_ACCEPT;
	struct fault *fault;
	u64 delay = 0;
	int at;

	if (protocol_of(skb, state->pf, &at) == (state->pf == NFPROTO_IPV4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return NF_ACCEPT;
	list_for_each_entry(fault, &faults->list, list) {
		if (fault->interface != state->in->ifindex || ++fault->seen != fault->number)
			continue;
		switch (fault->action) {
		case DROP:
			verdict = NF_DROP;
			break;
		case DELAY:
			verdict = verdict == NF_DROP ? NF_DROP : NF_STOLEN;
			delay = fault->value;
			break;
		case DUPLICATE:
			hold(skb_copy(skb, GFP_ATOMIC), state, fault->value);
			break;
		case STRIP:
			strip(skb, state->pf, fault->value);
			break;
		}
	}
	if (verdict == NF_STOLEN)
		hold(skb, state, delay);
	return verdict;
}

static const struct nf_hook_ops hooks[] = {
	{ .hook = arrive, .pf = NFPROTO_IPV4, .hooknum = NF_INET_PRE_ROUTING, .priority = INT_MAX },
	{ .hook = arrive, .pf = NFPROTO_IPV6, .hooknum = NF_INET_PRE_ROUTING, .priority = INT_MAX },
};

static int add(struct file *file, char *text, size_t length)
{
	struct net *net = seq_file_single_net(file->private_data);
	struct faults *faults = net_generic(net, faults_id);
	struct fault *fault;
	char name[16];
	int error = 0;

	if (current->mprun.entry)
		return -EPERM;
	if (!faults->has_hooks)
		error = nf_register_net_hooks(net, hooks, ARRAY_SIZE(hooks));
	if (error)
		return error;
	faults->has_hooks = true;
	fault = kzalloc(sizeof(*fault), GFP_KERNEL);
	if (!fault)
		return -ENOMEM;
	if (sscanf(text, "%d %llu %15s %llu", &fault->interface, &fault->number, name, &fault->value) == 4)
		error = match_string(names, ARRAY_SIZE(names), name);
	else
		error = -EINVAL;
	if (error < 0) {
		kfree(fault);
		return error;
	}
	fault->action = error;
	list_add_tail(&fault->list, &faults->list);
	return 0;
}

static int show(struct seq_file *file, void *unused)
{
	struct faults *faults = net_generic(seq_file_single_net(file), faults_id);
	struct fault *fault;

	list_for_each_entry(fault, &faults->list, list)
		seq_printf(file, "%d %llu %s %llu %d\n", fault->interface, fault->number, names[fault->action],
			   fault->value, fault->seen >= fault->number);
	return 0;
}

static int __net_init begin(struct net *net)
{
	struct faults *faults = net_generic(net, faults_id);

	INIT_LIST_HEAD(&faults->list);
	return proc_create_net_single_write("mprun_packets", 0600, net->proc_net, show, add, NULL) ? 0 : -ENOMEM;
}

static void __net_exit end(struct net *net)
{
	struct faults *faults = net_generic(net, faults_id);
	struct fault *fault, *next;

	remove_proc_entry("mprun_packets", net->proc_net);
	if (faults->has_hooks)
		nf_unregister_net_hooks(net, hooks, ARRAY_SIZE(hooks));
	list_for_each_entry_safe(fault, next, &faults->list, list)
		kfree(fault);
}

static struct pernet_operations operations = {
	.init = begin,
	.exit = end,
	.id = &faults_id,
	.size = sizeof(struct faults),
};

static int __init start(void)
{
	return register_pernet_subsys(&operations);
}
subsys_initcall(start);
