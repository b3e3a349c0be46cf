// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/auditverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/migrateverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/rehearseverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/runverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/skewverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/smallverbs"
)

// verbGroup is a part of the list of verbs in --help.
type verbGroup struct {
	title string
	verbs []func(*out.Env) *cobra.Command
}

// verbs has the constructor of each verb. Groups, and the verbs in each, stand
// in the order in which a new user needs them. --help keeps that order.
var verbs = []verbGroup{
	{"Hold locks, and look at them:", []func(*out.Env) *cobra.Command{
		runverb.New, runverb.NewHold, runverb.NewWait, smallverbs.NewLs, smallverbs.NewUnlock}},
	{"Live with old clients, and move off them:", []func(*out.Env) *cobra.Command{
		auditverb.NewAudit, auditverb.NewDoctor, skewverb.New, migrateverb.New}},
	{"Try:", []func(*out.Env) *cobra.Command{rehearseverb.New}},
	{lastGroup, []func(*out.Env) *cobra.Command{smallverbs.NewCompletion, smallverbs.NewVersion}},
}

// lastGroup also has cobra's own verb help.
const lastGroup = "This program:"

// addVerbs adds every verb to the root, in groups.
func addVerbs(root *cobra.Command, e *out.Env) {
	cobra.EnableCommandSorting = false
	for _, g := range verbs {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, newVerb := range g.verbs {
			verb := newVerb(e)
			verb.GroupID = g.title
			verb.Long = strings.TrimSpace(verb.Long)
			verb.SuggestFor = synonyms[verb.Name()]
			root.AddCommand(verb)
		}
	}
	root.SetHelpCommandGroupID(lastGroup)
}

// synonyms are words that people try for a verb and that do not look like it.
var synonyms = map[string][]string{
	"run":      {"lock", "exec", "acquire", "with"},
	"ls":       {"list", "show", "status", "keys", "get"},
	"unlock":   {"release", "delete", "del", "rm", "free", "force-release"},
	"doctor":   {"check", "fix", "diagnose"},
	"audit":    {"monitor", "inspect"},
	"rehearse": {"demo", "test", "try"},
	"bench":    {"perf", "benchmark"},
}

// flagGroup is a part of a verb's list of flags.
type flagGroup struct {
	Title string
	Flags []*pflag.Flag
}

// ownFlags has the flags that belong to the purpose of a verb, the commonest
// first. All others are in a group of sharedFlags. A flag that is in neither
// is printed in the last group, and a test reports it.
var ownFlags = map[string][]string{
	"getsetlock": {},
	"run":        holding,
	"hold":       holding,
	"wait":       holding,
	"ls":         {"watch", "wide", "namespace"},
	"unlock":     {"yes", "value"},
	"audit":      {"match", "for", "monitor", "report", "demo", "record", "replay", "hash"},
	"doctor":     {"match", "watch", "fix", "yes"},
	"skew": {"lease", "job", "clients", "spread", "behind", "ahead", "protocol", "preset", "delay", "poll",
		"latency", "explore", "trace", "report", "record", "seed"},
	"migrate": {"namespace", "to", "go", "wait", "watch", "monitor", "forget", "forget-evidence", "gone",
		"refused", "report"},
	"rehearse": {"protocol", "phases", "clients", "acquisitions", "orders", "report", "preset", "job", "poll",
		"latency", "crashes", "overruns", "seed"},
	"bench":      {"scenario", "rounds", "quick"},
	"completion": {},
	"version":    {},
	"help":       {},
}

// holding has the flags of the verbs that take a lock, or wait for one.
var holding = []string{"wait", "ttl", "keep", "busy-exit", "grace", "protocol", "namespace",
	"replicas",
	"no-join"}

// sharedFlags are the flags that several verbs have, in the order in which
// --help shows them.
var sharedFlags = []struct {
	title string
	names []string
}{
	{"Old clients:", []string{"dialect", "dialect-file", "mode", "lease", "greatest", "spread", "behind",
		"ahead",
		"gap", "idle", "job", "lease-checked"}},
	{"Server:", []string{"redis", "quorum", "epoch", "target", "cacert", "cert", "key", "password-file"}},
	{"General:", []string{"json", "verbose", "quiet", "help", "version"}},
}

// flagGroups returns the flags of a verb in the groups of its help. Hidden
// flags are in none.
func flagGroups(cmd *cobra.Command) []flagGroup {
	cmd.InitDefaultHelpFlag()
	taken := map[string]bool{}
	pick := func(names []string) (found []*pflag.Flag) {
		for _, name := range names {
			if f := cmd.Flags().Lookup(name); f != nil && !f.Hidden && !taken[name] {
				taken[name] = true
				found = append(found, f)
			}
		}
		return found
	}
	groups := []flagGroup{{"Flags:", pick(ownFlags[cmd.Name()])}}
	for _, g := range sharedFlags {
		groups = append(groups, flagGroup{g.title, pick(g.names)})
	}
	var rest []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { rest = append(rest, f.Name) })
	groups = append(groups, flagGroup{ungrouped, pick(rest)})
	return slices.DeleteFunc(groups, func(g flagGroup) bool { return len(g.Flags) == 0 })
}

// ungrouped is the title above flags that nobody put into a group.
const ungrouped = "Other flags:"

// flagUsages returns the groups as --help prints them, in 80 columns.
func flagUsages(cmd *cobra.Command) string {
	var b strings.Builder
	for _, g := range flagGroups(cmd) {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SortFlags = false
		for _, f := range g.Flags {
			set.AddFlag(f)
		}
		b.WriteString("\n\n" + g.Title + "\n" + strings.TrimRight(set.FlagUsagesWrapped(80), "\n"))
	}
	return b.String()
}
