// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"strconv"
	"strings"
	"sync"
)

// Dialing is the Command of rules about connecting. It supports Refuse, Silence
// and HoldRequest.
const Dialing = "(dial)"

// Rule says what happens to one or more of the commands that pass through a
// Wire. If two rules match the same command, the rule that was added first
// acts.
type Rule struct {
	Command string             // name of the commands, in any case; "": any command; Dialing: connecting
	When    func(Command) bool // further condition on the command; nil: none
	Nth     int                // first match to act on, counted from when the rule was added. Defaults to 1
	Times   int                // how many matches to act on, -1 for all. Defaults to 1
	Do      Action
}

// Action is what a Rule does with a command.
type Action struct {
	kind  kind
	reply string
	gate  *Gate
	ask   func(*Call) bool
}

// Call is a command that waits before the server. It needs two decisions.
type Call struct {
	Command Command
	Runs    chan bool   // whether it reaches the server
	Answer  chan []byte // receives the server's reply, if it ran
	Hears   chan []byte // what the client hears; nil: nothing, and the connection ends
}

type kind int

const (
	pass kind = iota
	refuse
	cutBefore
	cutAfter
	cutWithin
	cutReplied
	silence
	answer
	holdRequest
	holdReply
	ask
)

var (
	// Refuse refuses connections.
	Refuse = Action{kind: refuse}
	// CutBefore closes the connection instead of sending the command, which
	// never runs.
	CutBefore = Action{kind: cutBefore}
	// CutAfter lets the command run and closes the connection instead of
	// delivering the reply.
	CutAfter = Action{kind: cutAfter}
	// CutWithin lets the command run and closes the connection after half of
	// its reply.
	CutWithin = Action{kind: cutWithin}
	// CutReplied lets the command run, delivers its reply and then closes the
	// connection.
	CutReplied = Action{kind: cutReplied}
	// Silence drops the command and everything that follows on its connection,
	// which stays open: like a host that lost power, or a firewall that forgot
	// the connection.
	Silence = Action{kind: silence}
)

// Error replies of servers, for Answer.
const (
	NoScript = "NOSCRIPT No matching script. Please use EVAL."
	Loading  = "LOADING Redis is loading the dataset in memory"
	ReadOnly = "READONLY You can't write against a read only replica."
	OOM      = "OOM command not allowed when used memory > 'maxmemory'."
	NoPerm   = "NOPERM this user has no permissions to run this command"
)

// Answer sends an error reply instead of running the command.
func Answer(err string) Action { return Action{kind: answer, reply: "-" + err + "\r\n"} }

// Reply sends these bytes instead of running the command, as a proxy might.
func Reply(raw string) Action { return Action{kind: answer, reply: raw} }

// HoldRequest keeps the command from the server until the gate opens. The
// command then arrives even if the client has given up and closed its
// connection, like a late SET that a clean-up must survive. The client's later
// commands on that connection wait for it.
func HoldRequest(g *Gate) Action { return Action{kind: holdRequest, gate: g} }

// HoldReply lets the command run and keeps its reply from the client until the
// gate opens.
func HoldReply(g *Gate) Action { return Action{kind: holdReply, gate: g} }

// Ask calls do with each command, which then waits for its two decisions. The
// connection's later commands wait for it. If do returns false, the connection
// ends.
func Ask(do func(*Call) bool) Action { return Action{kind: ask, ask: do} }

// Gate holds commands back. It opens once and stays open.
type Gate struct {
	mu      sync.Mutex
	isOpen  bool
	reached chan struct{}
	open    chan struct{}
	held    sync.WaitGroup // requests held, or released and not yet answered
	count   int
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{reached: make(chan struct{}), open: make(chan struct{})} }

// Reached returns a channel that is closed when the first command reaches the
// gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open releases everything, and returns when the server has answered each held
// request or the request's connection has gone.
func (g *Gate) Open() {
	g.mu.Lock()
	if !g.isOpen {
		g.isOpen = true
		close(g.open)
	}
	g.mu.Unlock()
	g.held.Wait()
}

// enter counts a command. The caller calls delivered when the command is done.
func (g *Gate) enter() (delivered func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count++; g.count == 1 {
		close(g.reached)
	}
	if g.isOpen {
		return func() {}
	}
	g.held.Add(1)
	return sync.OnceFunc(g.held.Done)
}

// Command is a command as it passed the wire: its name, then its arguments.
type Command []string

// Is reports whether the command has that name, in any case.
func (c Command) Is(name string) bool { return len(c) > 0 && strings.EqualFold(c[0], name) }

// String returns the command on one line. Arguments that are not plain text are
// quoted as in Go, so two commands have the same line only if they have the
// same bytes.
func (c Command) String() string {
	words := make([]string, len(c))
	for i, a := range c {
		words[i] = a
		if q := strconv.QuoteToASCII(a); a == "" || strings.Contains(a, " ") || q != `"`+a+`"` {
			words[i] = q
		}
	}
	return strings.Join(words, " ")
}

// ruleState is a rule and how many commands it has matched.
type ruleState struct {
	Rule
	seen int
}

// take counts the command if it matches, and reports whether the rule acts on
// it.
func (r *ruleState) take(c Command) bool {
	if r.Command == "" && c.Is(Dialing) || r.Command != "" && !c.Is(r.Command) ||
		r.When != nil && !r.When(c) {
		return false
	}
	r.seen++
	first, times := max(r.Nth, 1), r.Times
	if times == 0 {
		times = 1
	}
	return r.seen >= first && (times < 0 || r.seen < first+times)
}
