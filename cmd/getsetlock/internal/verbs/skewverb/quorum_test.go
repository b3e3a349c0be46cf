package skewverb

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestQuorumIsAnsweredInWordsFirst(t *testing.T) {
	got := skewed(t, strings.Fields("--quorum 5 --lose 1 --jump 0")...)
	const want = `NO: two clients cannot hold the lock at once.
Why: the holder has 5 of 5 votes. 1 of them ends early, so a second client can get 1 vote, and needs 3.
Room: 2 votes may end early in one lease. With one more, two clients can hold.
With a bare majority, 3 votes, none may end early.
Not counted: a holder that stands still and writes after its lease has ended. No number of members helps against it, only a fence that the resource checks.

WHAT                       VALUE
members                        5
majority                       3
may be away                    2
holder's votes                 5
end early                      1
two can hold from              3
with a bare majority from      1
`
	if got.Code != 0 || got.Out != want || got.Errors != "" {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

func TestQuorumSaysWhyAndWhatToChange(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--quorum 5 --votes 3 --lose 1", 1,
			"a second client can get 3 votes, and needs 3.\nTo change: take all 5 votes; or give"},
		{"--quorum 5 --votes 3", 0, "Room: none. If one vote ends early, two clients can hold."},
		{"--quorum 3 --jump 2", 1, "use 5 members and take all votes"},
		{"--quorum 3 --jump 2 --jump-by 4s", 1, "YES"},
		{"--quorum 3 --jump 2 --jump-by 3s", 0,
			"Clocks that jump by 3s end no vote early: a holder stops trusting its lease 3s before its end."},
		{"--quorum 3 --jump 2 --jump-by 3s --lease 20s", 1, "YES"},
		{"--quorum 3 --restart 2", 1, "let restarted members wait (--restarted-wait)"},
		{"--quorum 3 --restart 2 --restarted-wait", 0, "so no restart counts"},
		{"--quorum 4", 0, "An even number: with 4 members no more may be away than with 3."},
		{"--quorum 31 --lose 15", 0, "a second client can get 15 votes, and needs 16."},
	} {
		got := skewed(t, strings.Fields(c.args)...)
		if got.Code != c.code || !strings.Contains(got.Out, c.says) || got.Errors != "" {
			t.Errorf("%s: code %d, want %d and %q\n%s%s", c.args, got.Code, c.code, c.says, got.Out,
				got.Errors)
		}
	}
}

// Each wrong combination has one sentence that names the flags.
func TestQuorumFlagsThatDoNotFitAreRefused(t *testing.T) {
	for args, says := range map[string]string{
		"--quorum 2":                                 "--quorum 2: must be from 3 to 31",
		"--quorum 32":                                "--quorum 32: must be from 3 to 31",
		"--quorum 5 --votes 2":                       "--votes 2: must be from 3, the majority, to 5",
		"--quorum 5 --lose 6":                        "--lose 6: must be from 0 to 5",
		"--quorum 5 --restart -1":                    "--restart -1: must be from 0 to 5",
		"--quorum 5 --spread 2s":                     "--spread is about old clients",
		"--quorum 5 --report x.html":                 "--report is about old clients",
		"--quorum 5 --job 2s":                        "--job is for the simulation: say by --every",
		"--quorum 5 --every 1h":                      "--job is missing",
		"--quorum 5 --every 0s --job 1s":             "--every 0s: it must be above zero",
		"--quorum 5 --jump-by 2s":                    "say by --jump how many",
		"--quorum 5 --restarted-wait":                "say by --restart how many",
		"--quorum 9 --explore":                       "--explore searches at most 7 members",
		"--quorum 5 --lease 0s":                      "--lease 0s: it must be above zero",
		"--quorum 5 --every 1h --job 1s --clients 1": "--clients 1: must be at least 2",
		"--quorum 5 --preset sundial --job 1s":       "sundial",
		"--lose 1 --job 2s":                          "--lose is about a lock over several servers: say",
		"--jump 0 --job 2s":                          "--jump is about a lock over several servers",
	} {
		got := skewed(t, strings.Fields(args)...)
		if got.Code != 2 || !strings.Contains(got.Errors, says) || strings.Count(got.Errors, "\n") != 1 ||
			got.Out != "" {
			t.Errorf("%s: code %d, want %q\n%s%s", args, got.Code, says, got.Out, got.Errors)
		}
	}
}

// The search prints the way to two holders, and agrees with the law about the
// same flags.
func TestQuorumIsExplored(t *testing.T) {
	states := exploreStates
	exploreStates = 200_000
	t.Cleanup(func() { exploreStates = states })
	got := skewed(t, strings.Fields("--quorum 3 --votes 2 --restart 1 --explore --quiet")...)
	const want = `Explored: the shortest way to two holders. Members are A to C.

TICK  WHO     EVENT
   0  A       votes for the holder
   0  B       votes for the holder
   0  holder  reads the replies: it holds
   0  A       restarts without its data
   0  rival   asks all members
   0  A       votes for the rival
   0  C       votes for the rival: it holds
`
	if got.Code != 1 || !strings.HasSuffix(got.Out, want) {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
	got = skewed(t, strings.Fields("--quorum 3 --lose 1 --restart 1 --restarted-wait --explore --quiet")...)
	if got.Code != 0 || !strings.Contains(got.Out, "states; two clients never hold at once.") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
	exploreStates = 100
	got = skewed(t, strings.Fields("--quorum 5 --lose 1 --explore --quiet")...)
	if got.Code != 0 || !strings.Contains(got.Out, "this proves nothing") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

// What the law calls possible happens in the simulation, and what it calls
// impossible does not.
func TestQuorumIsSimulated(t *testing.T) {
	got := skewed(t, strings.Fields("--quorum 5 --votes 3 --every 10m --job 40s --quiet")...)
	const says = "Once 1 vote ends early, two clients can hold, and in the simulation that happened."
	if got.Code != 1 || !strings.Contains(got.Out, says) ||
		!strings.Contains(got.Out, "\nvotes that ended early ") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
	got = skewed(t, strings.Fields("--quorum 5 --votes 3 --every 10m --restarted-wait --job 40s --quiet")...)
	if got.Code != 0 || !strings.Contains(got.Out, "Two clients held at once: never.") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
	// A preset's clocks are the members', also where it is about the server.
	for preset, ends := range map[string]bool{"chrony": false, "jepsen": true, "fail-over": true} {
		got := skewed(t, "--quorum", "3", "--votes", "2", "--job", "2m", "--preset", preset, "--quiet")
		if strings.Contains(got.Out, "Votes that ended early: 0.") == ends || got.Errors != "" {
			t.Errorf("%s: code %d\n%s%s", preset, got.Code, got.Out, got.Errors)
		}
	}
}

func TestQuorumDocumentHasItsFields(t *testing.T) {
	got := skewed(t, strings.Fields(
		"--quorum 3 --votes 2 --lose 1 --jump 1 --jump-by 1h --every 1h --job 1s..2s --explore --json --quiet")...)
	var doc QuorumDocument
	if err := json.Unmarshal([]byte(got.Out), &doc); err != nil || got.Code != 1 {
		t.Fatalf("code %d, %v\n%s%s", got.Code, err, got.Out, got.Errors)
	}
	if doc.Schema != "getsetlock.skew-quorum/1" || !doc.TwoHolders || !doc.Law.TwoHolders || doc.Votes != 2 ||
		doc.Law.Majority != 2 || doc.Law.Ended != 2 || doc.Law.From != 1 || doc.Law.BareFrom != 1 ||
		doc.Law.Away != 1 || doc.Lost != 1 || doc.Jumped != 1 || doc.JumpByMS.String() != "3600000" ||
		doc.EveryMS.String() != "3600000" || *doc.Job != "1s..2s" || doc.LeaseMS.String() != "30000" {
		t.Errorf("%+v", doc)
	}
	if s := doc.Simulation; s == nil || s.Acquisitions == 0 || s.Messages == 0 || s.Clients != 8 {
		t.Errorf("%+v", s)
	}
	x := doc.Explore
	if x == nil || *x.Safe || len(x.Trace) < 5 || x.Trace[2].Client != "holder" ||
		*x.Trace[2].Effect != "it holds" {
		t.Errorf("%+v", x)
	}
	got = skewed(t, "--quorum", "3", "--json")
	for _, null := range []string{"jump_by_ms", "every_ms", "job", "preset", "simulation", "explore"} {
		if !strings.Contains(got.Out, `"`+null+`": null`) {
			t.Errorf("%s is not null:\n%s", null, got.Out)
		}
	}
}
