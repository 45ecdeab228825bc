
# SPDX-License-Identifier: Apache-2.0
# Added by mprun. The scripts look in /proc/kallsyms for what a kernel has, so that those of a new tree can
# run on an old kernel. Here both are of one tree and need not ask; the answers would be wrong, since the last
# step of linking a User-Mode kernel makes every symbol local.
mptcp_lib_check_kallsyms() { :; }
mptcp_lib_kallsyms_has() { :; }
mptcp_lib_kallsyms_doesnt_have() { :; }
