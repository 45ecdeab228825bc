
# Added by mprun. The scripts look in /proc/kallsyms for what a kernel has, so that those of a new tree can
# run on an old kernel. Here both are of one tree; a kernel without CONFIG_KALLSYMS need not be asked.
if [ ! -e /proc/kallsyms ]; then
	mptcp_lib_check_kallsyms() { :; }
	mptcp_lib_kallsyms_has() { :; }
	mptcp_lib_kallsyms_doesnt_have() { :; }
fi
