// Package wire speaks to one Redis over one shared connection and always says what became of a
// command: executed or refused, certainly not sent, or unknown.
//
// A [Mux] takes the commands of any number of goroutines, writes them together and hands each its
// reply. It dials by the Dial or DialContext hook of a redigo pool, but never takes a connection out
// of that pool: user traffic that exhausts the pool must not delay a renewal, and closing the pool
// must not lose a lock. What the pool bounds (MaxActive, MaxIdle, Close) therefore does not bound a
// Mux, which holds one connection, and another once somebody waits for a key ([Tracker]). A [Prober]
// has one for a moment.
//
// Not promised: that a command runs at most once per call of the layer above (only [Mux.Repeat]
// sends it twice, but a caller who repeats after an [*UnknownError] may run it twice), nor any order
// between calls of different goroutines. Calls of one goroutine run in their order, except that one
// whose outcome is unknown may run later, after others.
//
// A goroutine leaves at once when its context ends. What it leaves in flight on
// a connection that has been silent for a quarter of the Timeout makes the next
// caller dial anew. A connection that was idle is asked by PING first: see
// prove.go.
//
// Clocks: deadlines of the network are real time on purpose, by the machine's monotonic clock,
// never by a clock that a test or a user may step: they bound how long a goroutine can be stuck,
// and decide nothing about who holds a lock.
//
// HAZARD: one connection is one queue. A command that keeps the server busy delays all commands
// behind it, and when the oldest goes without a reply for [Options.Timeout], every command in flight
// ends as unknown. Nothing that blocks on the server (BLPOP, WAIT) may be sent through a Mux.
package wire
