// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"strings"
)

// Event is an act in words: which client did what, at which tick, and with
// which result.
type Event struct {
	At     int
	Who    string
	What   string
	Arg    int
	HasArg bool
	Result string
}

// String returns the event as a line of the traces that tests keep: TICK WHO
// WHAT [ARG] [RESULT].
func (e Event) String() string {
	line := fmt.Sprintf("%d %s %s", e.At, e.Who, e.What)
	if e.HasArg {
		line += fmt.Sprintf(" %+d", e.Arg)
	}
	if e.Result != "" {
		line += " " + e.Result
	}
	return line
}

// Word is the word of a kind of act, and what it means. A "%+d" in it stands
// for the act's argument.
type Word struct {
	Word, Says string
	Arg        bool
}

// Vocabulary is the words of acts and of their results.
type Vocabulary struct {
	Acts     []Word   // by Kind
	Outcomes []string // by Outcome
	// Results say what a result means: after any act, or after one ("decide
	// kept").
	Results map[string]string
}

// OldWords are the words of old clients, of time and of the server.
func OldWords() Vocabulary {
	return Vocabulary{
		Acts: []Word{
			ActTick:  {},
			ActRead:  {"clock", "reads its clock, which is %+d, and makes its stamp", true},
			ActSetnx: {"setnx", "SETNX", false}, ActGet: {"get", "GET", false},
			ActJudge: {"judge",
				"reads its clock again (%+d), finds the value expired, makes a new stamp", true},
			ActGetset: {"getset", "finds the value expired by its clock (%+d), GETSET", true},
			ActReply:  {"reply", "judges what GETSET returned by its clock (%+d)", true},
			ActExpire: {"expire", "EXPIRE", false}, ActLast: {"setnx", "SETNX once more", false},
			ActLook:   {"look", "looks before its release", false},
			ActDecide: {"decide", "looks at its own time before its release", false},
			ActDel:    {"del", "DEL", false}, ActCrash: {"crash", "crashes", false},
			ActQuit:   {"quit", "gives its attempt up", false},
			ActExtend: {"extend", "renews by a clock reading of %+d", true},
			ActFleet:  {"step", "all old clocks step by %+d", true},
			ActServer: {"step", "its clock steps by %+d", true},
		},
		Outcomes: []string{
			OutNone: "", OutWon: "won", OutLost: "lost", OutNil: "nil", OutDone: "done",
			OutMissing: "missing", OutKept: "kept", OutOther: "value", OutGreatest: "greatest",
		},
		Results: map[string]string{
			"clock greatest": "with the greatest lease", "decide kept": "leaves the key",
			"decide done": "will delete", "look done": "will delete", "look kept": "leaves the key",
			"won": "it holds", "lost": "it does not get the lock", "nil": "nothing there",
			"value": "a value", "done": "done", "missing": "there was nothing left", "kept": "left alone",
		},
	}
}

// Event returns an act of an old client, of the server or of time in words.
// names says where the clients have moved since the beginning.
func (v Vocabulary) Event(a Act, now int, names Order) Event {
	k := v.Acts[a.Kind]
	e := Event{At: now, What: k.Word, Result: v.Outcomes[a.Out], HasArg: k.Arg}
	if k.Arg {
		e.Arg = int(a.Arg)
	}
	switch {
	case a.Kind == ActFleet:
		e.Who = "fleet"
	case a.Kind == ActServer:
		e.Who = "server"
	case a.Who >= FirstOld && a.Who < FirstOther:
		e.Who = fmt.Sprintf("old%d", names.Old[a.Who-FirstOld]+1)
	}
	return e
}

// Says describes an event to a reader.
func (v Vocabulary) Says(e Event) string {
	says := e.What
	for kind, w := range v.Acts {
		if w.Word == e.What && (Kind(kind) == ActServer) == (e.Who == "server") {
			says = w.Says
			break
		}
	}
	if strings.Contains(says, "%") {
		says = fmt.Sprintf(says, e.Arg)
	}
	result := v.Results[e.What+" "+e.Result]
	if result == "" {
		result = v.Results[e.Result]
	}
	if result != "" {
		says += ": " + result
	}
	return says
}
