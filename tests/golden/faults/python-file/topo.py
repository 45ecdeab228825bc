# SPDX-License-Identifier: Apache-2.0
from mininet.topo import Topo
