// Package rehearse lets a fleet of programs work through a real critical section and says whether
// they got into each other's way: read the stock of a product, decide, write it back, with a lock
// around it or without. Some of the programs die while they hold the lock. On the embedded server
// all of it happens in virtual time, so that minutes of waiting take seconds; on a real server it
// happens in real time.
//
// What is reported is not what a client or the server says. Every client's belief that it holds a
// key is written down with its true time, and so is every unit sold; afterwards the spans are laid
// over each other and the goods are counted. An overlap counts as excused only with a cause that has
// a name: something that the protocol's rules do not exclude, and that really happened here.
//
// A rehearsal that ends well is no proof. It shows the interleavings that this seed and these times
// brought about, on a server that loses nothing; an exhaustive search is another tool.
//
// The seed fixes the orders, how long each job and each message takes, who dies over which of its
// group's acquisitions, what every machine's clock does and when it stands still, and how the waits
// of the new clients are spread. In virtual time two runs of one seed are the same but for wall_ms:
// what would happen at one instant to several programs is kept apart, since which of those that wake
// together runs first is the scheduler's choice.
//
// HAZARD: virtual time assumes that whatever waits does so on a channel, a timer or a connection of
// the bubble. A goroutine that waits for a mutex whose owner waits for time would stop that time for
// ever, and so would one that asks again at once for as long as it is refused. Such a rehearsal is
// ended after a minute.
package rehearse
