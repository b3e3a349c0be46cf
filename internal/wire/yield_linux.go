package wire

import "syscall"

// yield leaves the CPU to other threads that are ready for it, whoever's they are; without any it costs
// less than a microsecond. To Go's scheduler this thread runs on, as it does when the system takes the
// CPU from it: goroutines beside it would come between us and those for whom we step aside.
func yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
