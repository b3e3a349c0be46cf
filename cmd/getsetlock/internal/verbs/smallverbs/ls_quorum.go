package smallverbs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
)

// memberVote is what one server of a quorum has of a lock.
type memberVote struct {
	Redis string       `json:"redis"`
	Until *string      `json:"until"` // by that server's clock
	Left  *json.Number `json:"left_ms"`
}

// polling is a quorum whose servers are all read. The servers come in the order
// in which the user named them.
type polling struct {
	members []out.Member
	sources []*source
	address string // of all of them, for messages
}

// openPolling connects nothing yet.
func openPolling(e *out.Env, f *out.ServerFlags, d dialect.Dialect) (*polling, error) {
	members, err := f.Members(e)
	if err != nil {
		return nil, err
	}
	p := &polling{members: members, address: out.Servers(members)}
	for _, m := range members {
		s, err := newSource(e, m.Pool, m.Address, d)
		if err != nil {
			p.close()
			return nil, err
		}
		p.sources = append(p.sources, s)
	}
	return p, nil
}

func (p *polling) close() {
	for _, s := range p.sources {
		s.close()
	}
}

// majority is how many votes a lock needs.
func (p *polling) majority() int { return len(p.members)/2 + 1 }

// each calls do for all servers at the same time, and returns their errors, in
// their order.
func (p *polling) each(do func(i int, s *source) error) []error {
	errs := make([]error, len(p.sources))
	var all sync.WaitGroup
	for i, s := range p.sources {
		all.Go(func() { errs[i] = do(i, s) })
	}
	all.Wait()
	return errs
}

// look reads the locks of every server and counts their votes. away says why
// servers did not answer. If fewer than a majority did, that is the error: no
// lock could be told from a free key.
func (p *polling) look(ctx context.Context, bar *out.Progress, on func(*source) looker) (lines []lockLine,
	away []string, err error) {
	seen := make([][]lockLine, len(p.sources))
	errs := p.each(func(i int, s *source) error {
		mine := bar
		if i > 0 {
			mine = nil // one server's progress stands for all of them
		}
		var err error
		seen[i], err = on(s)(ctx, mine)
		return err
	})
	var failed []error
	for i, err := range errs {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.members[i].Address, err))
			away = append(away, fmt.Sprintf("%s: %s", p.members[i].Address, reason(err)))
		}
	}
	if len(p.members)-len(failed) < p.majority() {
		return nil, away, fmt.Errorf("%d of %d servers answered, and a majority is %d: %w",
			len(p.members)-len(failed), len(p.members), p.majority(), together(failed))
	}
	return p.elect(seen, len(failed)), away, nil
}

// together are the errors of several servers, in one line.
type together []error

func (t together) Error() string {
	var said []string
	for _, err := range t {
		said = append(said, err.Error())
	}
	return strings.Join(said, "; ")
}

func (t together) Unwrap() []error { return t }

// elect returns a line for each value that is on a key of any server.
func (p *polling) elect(seen [][]lockLine, away int) []lockLine {
	votes := map[string][]int{} // indexes into all
	var all []lockLine
	var order []string
	for i, lines := range seen {
		for _, l := range lines {
			l.Members = []memberVote{{p.members[i].Address, l.Until, l.Left}}
			if _, known := votes[l.bytes()]; !known {
				order = append(order, l.bytes())
			}
			votes[l.bytes()] = append(votes[l.bytes()], len(all))
			all = append(all, l)
		}
	}
	var elected []lockLine
	for _, which := range order {
		var same []lockLine
		for _, n := range votes[which] {
			same = append(same, all[n])
		}
		elected = append(elected, p.count(same, away))
	}
	slices.SortStableFunc(elected, func(a, b lockLine) int {
		return cmp.Or(cmp.Compare(nameOf(a), nameOf(b)), wrapped(a)-wrapped(b), cmp.Compare(a.raw, b.raw),
			cmp.Compare(*b.Votes, *a.Votes), cmp.Compare(a.held, b.held))
	})
	return elected
}

// count returns one line for the votes that a value has. Sorted by their ends,
// the longest first, the vote that completes a majority says until when a
// majority has the value.
func (p *polling) count(same []lockLine, away int) lockLine {
	line := same[0]
	line.Votes, line.Members = new(int64(len(same))), nil
	for _, l := range same {
		line.Members = append(line.Members, l.Members...)
		if l.TTL != nil && (line.TTL == nil || l.ttl > line.ttl) {
			line.setTTL(l.ttl)
		}
		if l.Fence != nil && (line.Fence == nil || *l.Fence > *line.Fence) {
			line.Fence = l.Fence
		}
	}
	if line.State != StateHeld && line.State != StateExpired {
		return line
	}
	line.Until, line.Left, line.left = nil, nil, 0
	switch n := p.majority(); {
	case len(same) >= n:
		slices.SortStableFunc(same, func(a, b lockLine) int {
			return cmp.Compare(b.leftOrEver(), a.leftOrEver())
		})
		end := same[n-1]
		line.Until, line.Left, line.left = end.Until, end.Left, end.left
	case len(same)+away >= n:
		line.State = StateUnknown
	default:
		line.State = StateMinority
	}
	return line
}

// leftOrEver is how long the lock is held yet: for ever where nothing ends it.
func (l lockLine) leftOrEver() time.Duration {
	if l.Left == nil {
		return math.MaxInt64
	}
	return l.left
}

// bytes tells what is on a key from what is on the same key elsewhere.
func (l lockLine) bytes() string {
	value := ""
	if l.Value != nil {
		value = *l.Value
	}
	return l.raw + "\x00" + l.Type + "\x00" + value
}

// place is what --watch takes for one lock. On a quorum, several clients can
// have votes for one key.
func (l lockLine) place() string {
	if l.Votes != nil {
		return l.bytes()
	}
	return l.raw
}
