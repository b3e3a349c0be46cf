// SPDX-License-Identifier: Apache-2.0

// Package sim attacks the real locks in one deterministic world.
//
// A seed draws a [Plan]: machines, processes, operations and faults, each with
// its instant. [Play] runs the plan in a testing/synctest bubble, where time is
// virtual, and returns its [History]. [Judge] reads the history and complains
// about each promise that was broken. [Shrink] removes operations and faults
// from the plan while the same judge still complains.
//
//	seed ──Draw──▶ Plan ──Play──▶ History ──Judge──▶ complaints
//	                ▲                                    │
//	                └────────────── Shrink ◀─────────────┘
//
// # Determinism
//
// The same plan gives the same history, byte for byte. So no two things happen
// at one instant unless one causes the other: the latency of each message is
// drawn to the nanosecond, from the seed, the connection and the message's
// number. Removing a fault changes no other latency.
//
// Goroutines of one process may wake at one instant. So the draw of a pause
// depends on the operation, and timers of a process that thaws fire one after
// the other. What is left to the order of goroutines is repeated because the
// tests play on one processor, where they go on as they were woken.
//
// HAZARD: under the race detector there are more processors, and two plays may
// differ: a connection's end or a packet of replies wakes several goroutines,
// and each may be the first.
//
// HAZARD: a quorum draws its pauses itself. Two plays of a quorum may differ.
//
// HAZARD: tokens are random and cannot be drawn by seed in every package. The
// history gives each token a number in order of appearance.
//
// # Old clients
//
// Some plans have old clients in a dialect, alongside hardened ones or in a
// fleet with a record, members and an operator. What is claimed of the old
// clients is computed from the plan, and is true unless [Old].False names a
// claim. An overlap with an old client is excused only by a rule that an old
// client broke: it overran its lease, paused for longer than the gap, or came
// back after clean. The excuse follows the key: whatever that client deletes or
// overwrites exposes who held the key then, and nobody else.
//
// # Fleets
//
// A play of a fleet begins with a record in some phase, or without one. It
// lasts for a part of a migration. The world knows what scripts did to both
// keys of a lock, by which phase each token was written, when each heartbeat
// came, and what a verb had read when it took a step. It records what must not
// be, and the judge of marks complains about that. A lease that composed
// bridges have is the target's.
//
// # Quorums
//
// The value of a key is the token that a majority of the servers has. A server
// that restarts empty excuses a lease that is trusted without its majority. It
// excuses no overlap, since a server that has just started does not vote.
//
// # What is not simulated
//
// The server forgets no key in plans with old clients, and there is no MONITOR:
// the operator's watcher reports what the world saw. No client locks by a
// dialect without expiry, or by one that never releases.
//
// A frozen process keeps its goroutines: its timers, its messages and its
// operations wait. The embedded server has no tracking, so holders learn of a
// lost key at their next renewal.
package sim
