package redistest

import (
	"strconv"
	"strings"
	"sync"
)

// Dialing is the Command of rules about connecting. It takes Refuse, Silence and HoldRequest.
const Dialing = "(dial)"

// Rule says what becomes of one command of those that cross a Wire, or of several. Where two rules
// take the same command, the one added first has it.
type Rule struct {
	Command string             // by name, in either case; "" is any command, Dialing is connecting
	When    func(Command) bool // and by its arguments; nil is any
	Nth     int                // the first of those to act on, counted from when the rule was added. Defaults to 1
	Times   int                // how many to act on from there, -1 for all. Defaults to 1
	Do      Action
}

// Action is what a Rule does.
type Action struct {
	kind  kind
	reply string
	gate  *Gate
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
)

var (
	// Refuse lets nobody connect.
	Refuse = Action{kind: refuse}
	// CutBefore closes the connection in place of sending the command: it never runs.
	CutBefore = Action{kind: cutBefore}
	// CutAfter lets the command run and closes the connection in place of its reply.
	CutAfter = Action{kind: cutAfter}
	// CutWithin lets the command run and closes the connection after half of its reply.
	CutWithin = Action{kind: cutWithin}
	// CutReplied lets the command run, delivers its reply and then closes the connection.
	CutReplied = Action{kind: cutReplied}
	// Silence swallows the command and whatever follows on its connection, which stays open: a host
	// that lost power, or a firewall that forgot the flow.
	Silence = Action{kind: silence}
)

// Error replies that servers give, for Answer.
const (
	NoScript = "NOSCRIPT No matching script. Please use EVAL."
	Loading  = "LOADING Redis is loading the dataset in memory"
	ReadOnly = "READONLY You can't write against a read only replica."
	OOM      = "OOM command not allowed when used memory > 'maxmemory'."
	NoPerm   = "NOPERM this user has no permissions to run this command"
)

// Answer gives an error reply in place of running the command.
func Answer(err string) Action { return Action{kind: answer, reply: "-" + err + "\r\n"} }

// Reply gives these bytes in place of running the command: what a proxy answers by itself.
func Reply(raw string) Action { return Action{kind: answer, reply: raw} }

// HoldRequest keeps the command from the server until the gate opens. It arrives then even if the
// client has given up and closed its connection: the late SET that a clean-up must survive. The
// client's later commands on that connection wait behind it.
func HoldRequest(g *Gate) Action { return Action{kind: holdRequest, gate: g} }

// HoldReply lets the command run and keeps its reply from the client until the gate opens.
func HoldReply(g *Gate) Action { return Action{kind: holdReply, gate: g} }

// Gate is where held commands stand. It opens once and stays open.
type Gate struct {
	mu      sync.Mutex
	isOpen  bool
	reached chan struct{}
	open    chan struct{}
	held    sync.WaitGroup // requests that stand at the gate or are on their way from it
	count   int
}

// NewGate is a shut gate.
func NewGate() *Gate { return &Gate{reached: make(chan struct{}), open: make(chan struct{})} }

// Reached is closed when the first command stands at the gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open lets everything through, and returns when the server has answered each request that stood
// there, or their connections are gone.
func (g *Gate) Open() {
	g.mu.Lock()
	if !g.isOpen {
		g.isOpen = true
		close(g.open)
	}
	g.mu.Unlock()
	g.held.Wait()
}

// enter counts a command in, whose delivered is called when it is through for good.
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

// Command is a command as it crossed the wire: its name, then its arguments.
type Command []string

// Is tells whether the command has that name.
func (c Command) Is(name string) bool { return len(c) > 0 && strings.EqualFold(c[0], name) }

// String is the command on one line. What is not plain text is quoted as Go does, so that two
// commands have the same line only if they have the same bytes.
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

// ruleState is a rule and how many commands it has seen.
type ruleState struct {
	Rule
	seen int
}

// take counts the command and says whether the rule acts on it.
func (r *ruleState) take(c Command) bool {
	if r.Command == "" && c.Is(Dialing) || r.Command != "" && !c.Is(r.Command) || r.When != nil && !r.When(c) {
		return false
	}
	r.seen++
	first, times := max(r.Nth, 1), r.Times
	if times == 0 {
		times = 1
	}
	return r.seen >= first && (times < 0 || r.seen < first+times)
}
