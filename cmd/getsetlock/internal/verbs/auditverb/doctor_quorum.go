package auditverb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// doctorMember is a server of a quorum, as --json shows it.
type doctorMember struct {
	Redis   string  `json:"redis"`
	State   string  `json:"state"` // votes, waits, refused or away
	Run     *string `json:"run_id"`
	Version *string `json:"version"`
	VotesAt *string `json:"votes_at"` // when a server that waits begins to vote
}

// States of a server of a quorum.
const (
	memberVotes   = "votes"
	memberWaits   = "waits"
	memberRefused = "refused"
	memberAway    = "away"
)

// checkQuorum refuses flags about old clients, whose locks are on one server.
func (f *doctorFlags) checkQuorum(cmd *cobra.Command) error {
	return f.server.AloneInQuorum(cmd, "match", "dialect", "dialect-file", "lease", "spread", "behind",
		"ahead", "watch", "fix", "yes")
}

// quorum examines the servers of a quorum.
func (f *doctorFlags) quorum(e *out.Env, ctx context.Context) error {
	members, err := f.server.Members(e)
	if err != nil {
		return err
	}
	b, err := out.Quorum(e, members, modern.Config{Fence: true},
		quorum.Config{GreatestTTL: cmp.Or(f.terms.Greatest, out.GreatestTTL), Fences: true, Clock: e.Clock})
	if err != nil {
		return err
	}
	defer b.Close()
	survey := b.Check(ctx)
	if ctx.Err() != nil {
		return out.CouldNot(context.Cause(ctx), "examining %s", out.Servers(members))
	}
	x := &quorumExam{env: e, servers: members, survey: survey}
	for i, m := range survey.Members {
		x.members = append(x.members, x.judge(members[i], m))
	}
	x.judgeAll()
	x.askRights(ctx)
	if f.asJSON {
		if err := e.PrintJSON(x.document()); err != nil {
			return err
		}
	} else {
		x.print()
	}
	if slices.ContainsFunc(x.findings,
		func(f census.Finding) bool { return f.Severity != census.SeverityNote }) {
		return out.Exit(out.CodeBad)
	}
	return nil
}

// quorumExam is what an examination of a quorum found.
type quorumExam struct {
	env      *out.Env
	servers  []out.Member
	survey   quorum.Survey
	members  []doctorMember
	findings []census.Finding
}

func (x *quorumExam) add(s census.Severity, kind, what, advice string) {
	x.findings = append(x.findings, census.Finding{Severity: s, Kind: kind, What: what, Advice: advice})
}

// judge says whether a server votes, and adds a finding if it does not.
func (x *quorumExam) judge(at out.Member, m quorum.Standing) doctorMember {
	d := doctorMember{Redis: at.Address, State: memberVotes, Run: orNull(m.Server),
		Version: orNull(m.Version)}
	why := ""
	if m.Err != nil {
		why = out.CouldNot(m.Err, "%s", at.Address).Error()
	}
	switch {
	case m.Err == nil:
	case m.Refused:
		d.State = memberRefused
		advice := "name another server in its place; docs/quorum.md says which servers are refused"
		if m.Version == "" { // it said nothing: a password or a right is missing
			advice = "mend that; until then it does not vote"
		}
		x.add(census.SeverityError, "member_refused", why, advice)
	case !m.VotesAt.IsZero():
		d.State, d.VotesAt = memberWaits, out.Instant(m.VotesAt)
		x.add(census.SeverityNote, "member_waits",
			fmt.Sprintf("%s; it votes in %s", why, out.Rounded(max(m.VotesAt.Sub(lock.Machine.Now()), 0))),
			"wait; restart the servers of a quorum one by one, a greatest TTL apart")
	default:
		d.State = memberAway
		x.add(census.SeverityWarning, "member_away", why,
			"bring it back: until then, the loss of fewer other servers stops all locks")
	}
	return d
}

// judgeAll adds findings about all servers together.
func (x *quorumExam) judgeAll() {
	if err := x.survey.Err(); err != nil && x.voting() <= len(x.members)/2 {
		x.add(census.SeverityError, "no_majority",
			fmt.Sprintf("%d of %d servers vote, and a majority is %d: no lock can be taken now", x.voting(),
				len(x.members), len(x.members)/2+1), "see the findings about each server")
	}
	versions := map[string]bool{}
	for _, m := range x.members {
		if m.Version != nil {
			versions[*m.Version] = true
		}
	}
	if len(versions) > 1 {
		x.add(census.SeverityNote, "versions",
			fmt.Sprintf("the servers have %d different versions", len(versions)),
			"none is needed during an upgrade; otherwise let all have the newest")
	}
}

func (x *quorumExam) voting() (n int) {
	for _, m := range x.members {
		if m.State == memberVotes {
			n++
		}
	}
	return n
}

// matters reports whether a finding of the examination of one server matters to
// a member of a quorum. The others are about old clients, and about fail-over
// and restarts, which a quorum handles.
func matters(f census.Finding) bool {
	return f.Kind == "memory" ||
		f.Severity != census.SeverityNote && slices.Contains([]string{"right", "disk", "loading"}, f.Kind)
}

// askRights tries on each server that answers what this user may do there. The
// servers are asked at the same time.
func (x *quorumExam) askRights(ctx context.Context) {
	found := make([][]census.Finding, len(x.servers))
	var all sync.WaitGroup
	for i, m := range x.servers {
		if x.members[i].State == memberAway {
			continue
		}
		all.Go(func() {
			d, err := audit.Doctor(ctx, m.Pool, audit.DoctorConfig{ServerOnly: true,
				Timeout: x.env.Timeout, Clock: x.env.Clock, DB: m.DB})
			for _, c := range d.Complaints {
				if matters(c.Finding) {
					found[i] = append(found[i], c.Finding)
				}
			}
			if err != nil {
				found[i] = append(found[i], census.Finding{Severity: census.SeverityWarning,
					Kind: "member_away", What: out.CouldNot(err, "examining the server").Error(),
					Advice: "examine it again"})
			}
		})
	}
	all.Wait()
	for i, findings := range found {
		for _, f := range findings {
			f.What = x.servers[i].Address + ": " + f.What
			x.findings = append(x.findings, f)
		}
	}
	slices.SortStableFunc(x.findings, census.Finding.Compare)
}

func (x *quorumExam) print() {
	t := report.Table{Columns: []string{"server", "state", "version", "votes at", "run id"}, Text: 5}
	for i, m := range x.members {
		at := "-"
		if t := x.survey.Members[i].VotesAt; m.VotesAt != nil {
			at = t.Local().Format(time.DateTime)
		}
		t.Rows = append(t.Rows, []string{m.Redis, m.State, orUnsaid(m.Version), at, orUnsaid(m.Run)})
	}
	p := report.Page{Title: "examination of " + out.Servers(x.servers), Verdict: verdictOf(x.findings, "", ""),
		Causes: causesOf(x.findings), Sections: []report.Section{{Table: t}}}
	if len(x.findings) == 0 {
		p.Verdict = fmt.Sprintf("OK: all %d servers vote.", len(x.members))
	}
	x.env.PrintAnswer(p)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func orUnsaid(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func (x *quorumExam) document() DoctorDocument {
	doc := DoctorDocument{Schema: "getsetlock.doctor/1", Members: x.members}
	for _, f := range x.findings {
		doc.Findings = append(doc.Findings, audit.Complaint{Finding: f})
	}
	return doc
}
