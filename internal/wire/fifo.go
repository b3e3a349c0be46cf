// SPDX-License-Identifier: Apache-2.0

package wire

// fifo is a queue of calls in a ring that grows and never shrinks. It has at
// most one slot for each goroutine that ever waited at the same time.
type fifo struct {
	ring  []*call // its length is zero or a power of two
	first uint
	next  uint
}

func (q *fifo) len() int { return int(q.next - q.first) }

func (q *fifo) push(c *call) {
	if q.len() == len(q.ring) {
		ring := make([]*call, max(2*len(q.ring), 16))
		for i := range q.len() {
			ring[i] = *q.slot(q.first + uint(i))
		}
		q.ring, q.first, q.next = ring, 0, uint(q.len())
	}
	*q.slot(q.next) = c
	q.next++
}

// head returns the oldest call, nil if there is none.
func (q *fifo) head() *call {
	if q.len() == 0 {
		return nil
	}
	return *q.slot(q.first)
}

// pop removes and returns the oldest call, nil if there is none.
func (q *fifo) pop() *call {
	if q.len() == 0 {
		return nil
	}
	s := q.slot(q.first)
	c := *s
	*s = nil
	q.first++
	return c
}

func (q *fifo) slot(i uint) **call { return &q.ring[i&uint(len(q.ring)-1)] }
