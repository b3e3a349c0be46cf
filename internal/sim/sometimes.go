// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strings"
)

// Sometimes are the states that a run of a few hundred seeds must reach, or the
// run proves nothing of them. A name "script=outcome" is the first integer of a
// script's reply, or the word of an error.
var Sometimes = []string{
	"a gift", "a gift lost", "a key expired", "an attempt undone",
	"handed over in the process", "a context ends with its grant", "a gift not confirmed",
	"acquire=0", "acquire=1", "acquire=number", "give=0", "give=1", "leave=0", "leave=1", "release=0",
	"release=1", "renew=-3", "renew=0", "renew=1", "renew=number", "take=0", "take=1", "take=none",
	"take=number",
	"cut before acquire", "cut before take",
	"cut after acquire", "cut after give", "cut after take", "cut after renew",
	"cut within take",
	"refused acquire", "refused give", "refused leave", "refused release", "refused renew", "refused take",
	"failed: cancelled", "failed: client closed", "failed: held", "failed: trouble",
	"failed: wait ended, held", "failed: wait ended, trouble", "returned: lost", "returned: trouble",
	"hook endangered", "hook lost", "hook renew failed",
	"a takeover by age", "a takeover by a claimed Behind", "an old client robbed nobody",
	"phase observe", "phase dual", "phase sealed", "phase modern", "phase clean",
	"a refused gate", "a step taken", "a tombstone keeps an old client out",
	"a disorder", "a member is forgotten", "a process starts late",
	"a server of a quorum has restarted",
}

// reached adds the states that a history shows as a whole.
func (h *History) reached() {
	leased, written := map[int]int{}, map[int]bool{}
	on := make([]int, h.Plan.Keys)
	for _, e := range h.Events {
		if e.Kind == Acquired {
			leased[e.Token]++
		}
	}
	for _, e := range h.Events {
		switch e.Kind {
		case Acquired:
			h.acquired(e, leased)
		case Failed:
			h.Seen["failed: "+e.Text]++
		case Returned:
			h.Seen["returned: "+e.Text]++
		case Changed:
			h.changed(e, on[e.Key], leased, written)
			on[e.Key] = e.Token
		}
	}
}

func (h *History) acquired(e Event, leased map[int]int) {
	if leased[e.Token] > 1 {
		h.Seen["handed over in the process"]++
	}
	if !e.Stands {
		h.Seen["acquired without its key"]++
	}
}

// givers are the scripts that write a waiter's token to the key.
var givers = []string{"give", "leave"}

func (h *History) changed(e Event, before int, leased map[int]int, written map[int]bool) {
	gift := slices.Contains(givers, e.Text) && e.Token != 0
	switch {
	case gift && leased[e.Token] == 0:
		h.Seen["a gift lost"]++
	case gift:
		h.Seen["a gift"]++
	case e.Text == "expired" && before != 0:
		h.Seen["a key expired"]++
	case before != 0 && leased[before] == 0 && !strings.HasPrefix(e.Text, "server"):
		h.Seen["an attempt undone"]++
	case e.Token != 0 && written[e.Token] && e.Token != before:
		h.Seen["a token came back"]++
	}
	written[e.Token] = true
}
