// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/sessions"
)

// A session must last two ticks, so that trust counts from the write before the
// last one: see [trust]. An observer may get its data from a follower. Its
// touches then reach the leader within a whole tick, so its sessions must last
// four ticks.
const (
	leastTicks         = 2
	leastTicksObserver = 4
)

// usualTick is the longest tickTime that is common: ZooKeeper's default.
const usualTick = 3 * time.Second

// role is what a server says of itself.
type role struct {
	tick     time.Duration // 0: it did not say
	observer bool
}

// readRole reads the answers to the words conf and srvr. A server answers only
// the words on its whitelist, by default srvr alone.
func readRole(conf, srvr string) (r role) {
	for line := range strings.Lines(conf + "\n" + srvr) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "tickTime="); ok {
			millis, _ := strconv.Atoi(text)
			r.tick = time.Duration(millis) * time.Millisecond
		}
		r.observer = r.observer || line == "peerType=1" || line == "Mode: observer"
	}
	return r
}

// refuse returns an error if sessions of this timeout cannot be trusted, and a
// warning if perhaps they cannot.
func (r role) refuse(timeout time.Duration) (warning string, err error) {
	switch {
	case timeout < leastTicks*r.tick:
		return "", &sessions.Trouble{Text: fmt.Sprintf(
			"zookeeper: the server keeps this session for %v, which is less than two of its ticks, so a loss might be reported too late; set Config.TTL to %v or more",
			timeout, leastTicks*r.tick), Err: fmt.Errorf("tickTime is %v", r.tick), Replied: true}
	case !r.observer:
		return "", nil
	case r.tick == 0 && timeout < leastTicksObserver*usualTick:
		return "the server is an observer, and does not tell its tickTime; if another observer or a follower serves it (observerMasterPort), a loss may be reported too late: set Config.TTL to four ticks, or leave observers out of the list of servers",
			nil
	case timeout < leastTicksObserver*r.tick:
		return fmt.Sprintf(
			"the server is an observer; if a follower serves it (observerMasterPort), a loss may be reported too late: set Config.TTL to %v, or leave observers out of the list of servers",
			leastTicksObserver*r.tick), nil
	}
	return "", nil
}

// examine asks the server at address what it is, on a connection of its own. A
// server that does not answer is taken for one that suits.
func (s *session) examine(ctx context.Context, address string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, s.b.cfg.Timeout/2)
	defer cancel()
	conf := s.b.word(ctx, address, "conf")
	r := readRole(conf, "")
	if r.tick == 0 {
		r = readRole(conf, s.b.word(ctx, address, "srvr"))
	}
	warning, err := r.refuse(timeout)
	if warning != "" && s.b.noticed.first("observer "+address) {
		s.b.cfg.Logger.Warn(warning, "server", address, "timeout", timeout)
	}
	return err
}

// mostSaid is how many bytes of an answer are read.
const mostSaid = 64 << 10

// word sends one of the words of four letters that servers answer in plain
// text, and then end the connection. The answer is empty after an error.
func (b *engine) word(ctx context.Context, address, word string) string {
	conn, err := b.connect(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, word); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, mostSaid))
	return string(answer)
}
