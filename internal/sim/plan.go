// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// Plan is all that a seed draws, as plain data. The same plan gives the same
// history; dropping an operation or a fault leaves the rest as it was.
type Plan struct {
	Seed     uint64
	Form     Form
	Keys     int
	Machines []Machine
	Procs    []Proc
	Ops      []Op
	Faults   []Fault
	Old      *Old    // the old clients; nil: none
	Nodes    int     // how many servers there are; 0: one
	Fenced   bool    // leases have fencing numbers
	Strange  Strange // what is unusual about the records of a quorum
}

// Form is how all processes of a plan lock.
type Form string

// Forms.
const (
	Plain     Form = "plain"
	Fence     Form = "fence"
	Fair      Form = "fair"
	FairFence Form = "fair+fence"
	Hardened  Form = "hardened"
	Beside    Form = "beside" // hardened, alongside old clients
	Bridged   Form = "bridge" // a fleet that leaves old clients behind
	Quorum    Form = "quorum" // on a majority of several servers
)

// Machine is a machine's clock as it was when the world began.
type Machine struct {
	Offset time.Duration
	PPM    float64
}

// Proc is a process and its configuration. Zero times are the defaults of the
// packages under test.
type Proc struct {
	Kind       ProcKind
	Machine    int
	TTL        time.Duration
	Margin     time.Duration
	RenewEvery time.Duration
	RetryEvery time.Duration
	Wait       time.Duration
	Timeout    time.Duration
	Politeness time.Duration
	HandOvers  int
	Longest    time.Duration // LongestHold
	Note       string
	Deaf       bool          // the server reports no changes to it (WakeOff)
	Unwarned   bool          // it has no hook Endangered
	Near       time.Duration // least latency of a message
	Starts     time.Duration // when the process starts; 0: with the world
}

// every is the time between two renewals; negative: there are none.
func (c Proc) every() time.Duration { return cmp.Or(c.RenewEvery, c.TTL/3) }

// Op is one operation of a process.
type Op struct {
	ID     int
	At     time.Duration // instant since the world's start
	Proc   int
	Key    int
	Kind   OpKind
	Hold   time.Duration // time for which the lease is held
	Cancel time.Duration // time after which the wait is cancelled; 0: never
	Tarry  time.Duration // time for which the holder goes on after its lease was lost

	// Of old clients: the hold is longer than the lease, and it ends when a
	// release is on its way; the client comes back when it was said to be gone;
	// it comes while a takeover is on its way.
	Overruns, Late, Rushes bool
}

// OpKind is how an operation takes its key.
type OpKind string

// Kinds of operations.
const (
	Acquire OpKind = "acquire"
	Try     OpKind = "try"
	Do      OpKind = "do"
	Request OpKind = "request"
	ByHand  OpKind = "by hand" // acquire, and renew by hand in the middle of the hold
	Hasty   OpKind = "hasty"   // acquire, and renew by hand without any time to do it
	Close   OpKind = "close"   // the process closes its Client
	Kill    OpKind = "kill"    // the process ends without a word
)

// Fault is one thing that goes wrong, for some time or at once.
type Fault struct {
	ID     int
	At     time.Duration // instant since the world's start
	For    time.Duration // length; for a trap how long it stays armed
	Kind   FaultKind
	Proc   int           // process that it hits, or whose machine; All: every one
	Node   int           // of several servers the one that it hits, from 1 on; 0: every one
	Amount time.Duration // how far a clock steps, or how old the replica's data are
	Nth    int           // of a trap: number of the write on a connection; 0: the next one on any
}

// All is the Proc of a fault that hits every process.
const All = -1

// end returns the instant at which the fault is over.
func (f Fault) end() time.Duration { return f.At + f.For }

// is reports whether the fault is of one of these kinds.
func (f Fault) is(kinds ...FaultKind) bool { return slices.Contains(kinds, f.Kind) }

// lasts reports whether the fault lasts until its connection is used again.
func (f Fault) lasts() bool { return f.is(Silence, MuteReplies) }

// hits reports whether the fault concerns a process.
func (f Fault) hits(proc int) bool { return f.Proc == All || f.Proc == proc }

// covers reports whether the fault is on at an instant.
func (f Fault) covers(at time.Duration) bool { return f.At <= at && at < f.end() }

// FaultKind names what goes wrong.
type FaultKind string

// Faults of the network. Traps act on the first message after their instant.
const (
	Hold        FaultKind = "hold"         // messages both ways arrive at the end
	HoldRequest FaultKind = "hold request" // requests arrive at the end
	HoldReply   FaultKind = "hold reply"   // replies arrive at the end
	Slow        FaultKind = "slow"         // each message takes Amount longer
	Stall       FaultKind = "stall"        // what open connections carry arrives at the end
	Late        FaultKind = "late"         // messages to subscribers come up to Amount later
	Twice       FaultKind = "twice"        // they come at once, and again up to Amount later
	Silence     FaultKind = "silence"      // open connections carry nothing any more
	MuteReplies FaultKind = "mute replies" // open connections carry no replies any more
	Refuse      FaultKind = "refuse"       // connections are cut, and new ones refused
	CutBefore   FaultKind = "cut before"   // trap: the request is not delivered
	CutAfter    FaultKind = "cut after"    // trap: the request runs, and its reply is lost
	CutWithin   FaultKind = "cut within"   // trap: half of the reply is delivered
)

// Faults of processes and machines.
const (
	Freeze  FaultKind = "freeze"  // the process is stopped (SIGSTOP)
	Suspend FaultKind = "suspend" // its machine sleeps
	Step    FaultKind = "step"    // its machine's wall clock steps by Amount
)

// Faults of the server.
const (
	Restart     FaultKind = "restart"      // it is down, and comes back empty
	Reboot      FaultKind = "reboot"       // it is down, and comes back with its keys
	Flush       FaultKind = "flush"        // FLUSHALL
	ScriptFlush FaultKind = "script flush" // SCRIPT FLUSH
	FailOver    FaultKind = "fail-over"    // a replica that lacks the last Amount takes over
	ServerStep  FaultKind = "server step"  // its clock steps by Amount
	Loading     FaultKind = "LOADING"      // it refuses every command
	ReadOnly    FaultKind = "READONLY"     // it refuses writes
	OOM         FaultKind = "OOM"          // it refuses writes that need memory
	Busy        FaultKind = "BUSY"         // it refuses every command
	NoAuth      FaultKind = "NOAUTH"       // it refuses every command
)

// traps act on one message.
var traps = []FaultKind{CutBefore, CutAfter, CutWithin}

// forgets reports whether the fault makes the server forget acknowledged
// writes.
func (k FaultKind) forgets() bool { return k == Restart || k == Flush || k == FailOver }

// quiet returns the instant after which nothing goes wrong and no operation
// begins.
func (p *Plan) quiet() (at time.Duration) {
	for _, f := range p.Faults {
		at = max(at, f.end())
	}
	for _, o := range p.Ops {
		at = max(at, o.At+o.Cancel)
	}
	return at
}

// longest returns the greatest TTL.
func (p *Plan) longest() (ttl time.Duration) {
	for _, c := range p.Procs {
		ttl = max(ttl, c.TTL)
	}
	return ttl
}

// delayed returns when a message arrives that would arrive at an instant, if
// faults of these kinds hold it.
func (p *Plan) delayed(proc int, at time.Duration, kinds ...FaultKind) time.Duration {
	for again := true; again; {
		again = false
		for _, f := range p.Faults {
			if f.hits(proc) && f.covers(at) && f.is(kinds...) {
				at, again = f.end(), true
			}
		}
	}
	return at
}

// hit reports whether a fault of these kinds is on for a process at some time
// from one instant to another.
func (p *Plan) hit(proc int, from, to time.Duration, kinds ...FaultKind) bool {
	for _, f := range p.Faults {
		if f.hits(proc) && f.At <= to && from <= f.end() && (len(kinds) == 0 || f.is(kinds...)) {
			return true
		}
	}
	return false
}

// fault adds a fault, and op an operation, with the next ID.
func (p *Plan) fault(f Fault) {
	f.ID = len(p.Faults)
	p.Faults = append(p.Faults, f)
}

func (p *Plan) op(o Op) {
	o.ID = len(p.Ops)
	p.Ops = append(p.Ops, o)
}

// faults are those that hit a process or its machine.
func (p *Plan) faults(proc int) iter.Seq[Fault] {
	return func(yield func(Fault) bool) {
		for _, f := range p.Faults {
			if (f.hits(proc) || p.onMachine(f, proc)) && !yield(f) {
				return
			}
		}
	}
}

// hits returns how many faults hit a process in a span of time.
func (p *Plan) hits(proc int, from, to time.Duration) (n int) {
	for f := range p.faults(proc) {
		if f.At <= to && from <= f.end()+lateTold {
			n++
		}
	}
	return n
}
