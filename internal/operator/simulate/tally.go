// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math/bits"
	"time"
)

// Cause is what let a second holder in.
type Cause uint8

// The causes.
const (
	CauseNone Cause = iota
	// CauseSkew: with all clocks right the stamp would not have been expired.
	CauseSkew
	// CauseJob: with all clocks right it would have been. The job, the holder's
	// pauses or a stalled command took longer than the lease.
	CauseJob
	// CauseJump: without a step of the challenger's clock since the stamp was
	// written it would not have been.
	CauseJump
	// CauseProtocol: no time had to pass. The dialect's clients do not exclude
	// each other.
	CauseProtocol
)

// String returns the word that the command prints.
func (c Cause) String() string {
	if names := [...]string{"none", "skew", "job", "jump", "protocol"}; int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("Cause(%d)", uint8(c))
}

// Rates is the result of a simulation. Spans are of simulated time.
type Rates struct {
	Span         time.Duration `json:"span_ms"`      // how long the fleet was watched
	Acquisitions int64         `json:"acquisitions"` // of all clients, takeovers included
	Entries      int64         `json:"overlapped"`   // acquisitions while another client held

	// An episode is a maximal span with two or more holders. A client holds
	// from the execution of its winning command to that of its DEL, or until it
	// decides not to send one.
	Episodes    int64         `json:"episodes"`
	Causes      Causes        `json:"episodes_by"`
	EpisodeTime time.Duration // sum; one still open at the end counts up to then
	// the longest time for which two or more held
	LongestEpisode time.Duration `json:"longest_overlap_ms"`
	MostHolders    int           `json:"most_holders"`  // the most that held at once
	LongestChain   int64         `json:"longest_chain"` // most entries in one episode

	// Waits of acquires that won, from the start to the winning command;
	// precise to 1.6 %.
	WaitP50  time.Duration `json:"wait_p50_ms"`
	WaitP99  time.Duration `json:"wait_p99_ms"` // 99 of 100 waits were no longer
	WaitMost time.Duration
	// WonP50 and WonP99 are the times within which half and 99 % of all
	// acquires won, those that gave up included; negative: so many never won.
	WonP50, WonP99 time.Duration
	// Blocked is for how long no client held, the key existed, and a client
	// waited: because of ghosts, and polls that come late.
	Blocked   time.Duration `json:"blocked_ms"`
	GaveUp    int64         `json:"gave_up"`   // acquires that ended without the lock
	Takeovers int64         `json:"takeovers"` // acquisitions by GETSET
	Clobbers  int64         `json:"clobbers"`  // GETSETs that did not win; each overwrote a value
	Commands  int64         `json:"commands"`  // executed by the server
}

// Causes counts episodes by the cause of their first entry.
type Causes struct {
	Job      int64 `json:"job"`      // a job that outlasts its lease
	Jump     int64 `json:"jump"`     // a clock that jumped
	Protocol int64 `json:"protocol"` // no clock, job or pause: the protocol itself
	Skew     int64 `json:"skew"`     // clocks that are apart
}

// Main returns the commonest cause; CauseNone without an episode. Of equal ones
// it is the first of skew, job, jump, protocol.
func (c Causes) Main() Cause {
	main, most := CauseNone, int64(0)
	for i, n := range []int64{c.Skew, c.Job, c.Jump, c.Protocol} {
		if n > most {
			main, most = CauseSkew+Cause(i), n
		}
	}
	return main
}

// tally is what is counted during the run.
type tally struct {
	acquisitions, takeovers, clobbers, gaveUp, commands int64

	holders, waiting int
	since            int64 // beginning of the episode, true time
	chain            int64
	episodes         int64
	episodeTime      int64
	longest          int64
	mostHolders      int
	entries          int64
	longestChain     int64
	causes           [CauseProtocol + 1]int64
	blocked          int64
	waits            histogram
}

// wins makes the client hold from now on, and charges the former owner's next
// trouble to cause.
func (m *Simulator) wins(c *simClient, cause Cause) {
	m.key.freed = CauseNone
	if m.key.owner >= 0 && m.key.owner != c.name && m.clients[m.key.owner].holding {
		m.clients[m.key.owner].robbed = cause
	}
	m.key.owner = c.name
	t := &m.tally
	t.acquisitions++
	t.waits.add(m.now - c.began)
	c.waiting, c.holding, c.robbed = false, true, CauseNone
	t.waiting--
	t.holders++
	t.mostHolders = max(t.mostHolders, t.holders)
	if t.holders < 2 {
		return
	}
	t.entries++
	t.chain++
	t.longestChain = max(t.longestChain, t.chain)
	if t.holders == 2 {
		if cause == CauseNone {
			cause = CauseProtocol
		}
		t.episodes++
		t.since = m.now
		t.causes[cause]++
	}
}

// ends ends a client's hold.
func (m *Simulator) ends(c *simClient) {
	t := &m.tally
	if !c.holding {
		return
	}
	c.holding = false
	t.holders--
	if t.holders == 1 {
		t.episodeTime += m.now - t.since
		t.longest = max(t.longest, m.now-t.since)
		t.chain = 0
	}
}

// causeOf asks whether a takeover would have happened with right clocks: the
// stamp without its writer's offset, judged without the challenger's. Then it
// asks the same without the challenger's last step, if that came after the
// stamp. The result matters only while the owner holds.
func (m *Simulator) causeOf(c *simClient, present bool) Cause {
	k := &m.key
	if !present || k.owner < 0 || !m.clients[k.owner].holding {
		return CauseNone
	}
	right := simValue{stamp: k.value.stamp - k.theta}
	switch {
	case !m.rules.past(k.value, c.judged):
		return CauseProtocol // its own uuid, or a GET that found nothing
	case m.rules.past(right, c.judgedAt):
		return CauseJob
	case c.clock.steppedAt > k.truth && c.clock.steppedAt <= c.judgedAt &&
		!m.rules.past(k.value, c.judged-c.clock.stepped):
		return CauseJump
	}
	return CauseSkew
}

// Rates returns the result so far.
func (m *Simulator) Rates() Rates {
	t := &m.tally
	now := m.now
	if m.For > 0 && m.clients[m.queue[0]].next > m.end {
		now = m.end
	}
	r := Rates{
		Span: time.Duration(now - simulationStart), Acquisitions: t.acquisitions, Takeovers: t.takeovers,
		Clobbers: t.clobbers, GaveUp: t.gaveUp, Commands: t.commands,
		Episodes: t.episodes, EpisodeTime: time.Duration(t.episodeTime),
		LongestEpisode: time.Duration(t.longest),
		MostHolders:    t.mostHolders, Entries: t.entries, LongestChain: t.longestChain,
		Causes: Causes{Skew: t.causes[CauseSkew], Job: t.causes[CauseJob], Jump: t.causes[CauseJump],
			Protocol: t.causes[CauseProtocol]},
		WaitP50: time.Duration(t.waits.quantile(50, 0)), WaitP99: time.Duration(t.waits.quantile(99, 0)),
		WonP50:   time.Duration(t.waits.quantile(50, t.gaveUp)),
		WaitMost: time.Duration(t.waits.most),
		WonP99:   time.Duration(t.waits.quantile(99, t.gaveUp)),
		Blocked:  time.Duration(t.blocked),
	}
	if t.holders > 1 {
		open := time.Duration(now - t.since)
		r.EpisodeTime += open
		r.LongestEpisode = max(r.LongestEpisode, open)
	}
	return r
}

// histogram counts spans in 64 slots for each doubling: 1.6 % wide, whatever
// the span, 32 KiB in all.
type histogram struct {
	counts [64 * 64]int64
	total  int64
	most   int64
}

const histogramBits = 6

func (h *histogram) add(n int64) {
	h.counts[slot(n)]++
	h.total++
	h.most = max(h.most, n)
}

func slot(n int64) int {
	if n < 1<<histogramBits {
		return int(n)
	}
	shift := bits.Len64(uint64(n)) - histogramBits - 1
	return shift<<histogramBits + int(n>>shift)
}

// slotEnd returns the greatest span of a slot.
func slotEnd(i int) int64 {
	if i < 2<<histogramBits {
		return int64(i)
	}
	shift := i>>histogramBits - 1
	return (int64(i-shift<<histogramBits)+1)<<shift - 1
}

// quantile returns a span that so many percent do not exceed: the upper end of
// its slot. To the spans counted it adds some without an end. It returns -1 if
// it is one of these, and 0 without any span.
func (h *histogram) quantile(percent, endless int64) int64 {
	rank := ((h.total+endless)*percent + 99) / 100
	if rank > h.total {
		return -1
	}
	seen := int64(0)
	for i, n := range h.counts {
		if seen += n; seen >= rank && n > 0 {
			return min(slotEnd(i), h.most)
		}
	}
	return 0
}
