// SPDX-License-Identifier: Apache-2.0

// Package rehearse lets a fleet of programs sell goods, with or without a lock,
// and reports whether they got in each other's way. Each program reads the
// stock of a product, decides, and writes the stock back. Some programs die
// while they hold the lock.
//
// On the embedded server all of it happens in virtual time, so that minutes of
// waiting take seconds. On a real server it happens in real time.
//
// # What is reported
//
// The report does not rely on what a client or the server says. A book records
// the true time of every span in which a client believed that it held a key,
// and every unit sold. Afterwards the spans are compared and the goods are
// counted. An overlap is excused only by a named cause: something that the
// protocol's rules do not exclude, and that really happened in this run.
//
// A rehearsal without overlaps is no proof. It shows the orders of events that
// this seed and these times produced, on a server that loses nothing. Package
// skew has an exhaustive search.
//
// # The seed
//
// The seed fixes the orders, the length of each job and each message, and which
// acquisitions of a group end in a death. It also fixes what each machine's
// clock does, when a machine pauses, and how the waits of new clients are
// spread. In virtual time two runs of one seed differ only in wall_ms. For
// that, events of several programs never share an instant: the scheduler
// chooses which of several programs that wake together runs first.
//
// # HAZARD
//
// Virtual time assumes that whatever waits does so on a channel, a timer or a
// connection of the bubble. It would stop for ever if a goroutine waited for a
// mutex whose owner waits for time, or asked again at once whenever it is
// refused. Such a rehearsal is ended after a minute.
package rehearse
