// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/quorum"
)

// protocolAuto follows a namespace's migration. The other protocols have the
// names that ls prints.
const protocolAuto = "auto"

var runProtocols = []string{out.ProtocolModern, out.ProtocolLegacy, out.ProtocolDual, protocolAuto}

// forLegacy are the flags that describe old clients. Any of them selects the
// legacy protocol, but not with --quorum.
var forLegacy = []string{"dialect", "dialect-file", "mode", "lease", "greatest", "spread", "behind", "ahead",
	"gap"}

// forRedis are the flags that mean nothing in another store.
var forRedis = append([]string{"protocol", "replicas", "namespace", "epoch"}, forLegacy...)

// moves reports whether the bridge keeps the lock.
func (f *runFlags) moves() bool { return f.protocol == out.ProtocolDual || f.protocol == protocolAuto }

// verbatim reports whether only an old client's commands are sent.
func (f *runFlags) verbatim() bool { return f.protocol == out.ProtocolLegacy && f.mode == "verbatim" }

// check chooses the store and the protocol, and refuses flags that contradict
// each other. Durations are compared with each other later, in New of the
// backends.
func (f *runFlags) check(e *out.Env, cmd *cobra.Command) (err error) {
	if f.target, err = f.server.PickTarget(e); err != nil {
		return err
	}
	given := cmd.Flags().Changed
	f.waitGiven, f.graceGiven = given("wait"), given("grace")
	if f.target != nil {
		err = f.target.Refuse(cmd, forRedis...)
	} else if err = f.pickProtocol(given); err == nil {
		err = out.Refuse(cmd, f.rules(given)...)
	}
	if err != nil {
		return err
	}
	if !f.dialect.Given() && f.protocol != out.ProtocolModern && f.protocol != protocolAuto {
		f.terms.Behind = 0 // the environment's, see rules; with auto the record may have one
	}
	return f.checkValues(given)
}

// pickProtocol chooses the protocol that no flag names.
func (f *runFlags) pickProtocol(given func(flag string) bool) error {
	switch asked := given("protocol"); {
	case asked && f.server.Quorum && f.protocol != out.ProtocolModern:
		return out.WrongUse("--quorum is for --protocol modern: old clients' locks are on one server")
	case asked && !slices.Contains(runProtocols, f.protocol):
		return out.WrongUse("--protocol %q is unknown; write one of %s", f.protocol,
			strings.Join(runProtocols, ", "))
	case asked:
	case !f.server.Quorum && slices.ContainsFunc(forLegacy, given):
		f.protocol = out.ProtocolLegacy
	default:
		f.protocol = out.ProtocolModern
	}
	return nil
}

// rules say which flags the protocol cannot follow.
func (f *runFlags) rules(given func(flag string) bool) []out.Rule {
	modern, legacy := f.protocol == out.ProtocolModern, f.protocol == out.ProtocolLegacy
	many := f.server.Quorum
	forModern := "--%s is for --protocol modern"
	if at := slices.IndexFunc(forLegacy, given); at >= 0 && !given("protocol") {
		forModern += ", and --" + forLegacy[at] + " selects legacy"
	}
	notForBridge := "--%s is not for --protocol " + f.protocol
	// Where other clients' TTLs are longer, a quorum must know it.
	notForQuorum := slices.DeleteFunc(slices.Clone(forLegacy),
		func(name string) bool { return name == "greatest" })
	return []out.Rule{
		{If: !many, Flags: []string{"epoch"}, Says: "--%s is for --quorum"},
		{If: many, Flags: notForQuorum,
			Says: "--%s is not for --quorum: it describes old clients, whose locks are on one server"},
		{If: many, Flags: []string{"replicas"},
			Says: "--%s is not for --quorum, whose servers have no replicas: the votes of a majority take their place"},
		{If: modern && !many, Flags: forLegacy,
			Says: "--%s is for --protocol legacy: it describes old clients, and they cannot share a token lock"},
		{If: legacy, Flags: []string{"replicas"},
			Says: forModern + ": a legacy lock does not wait for replicas"},
		{If: legacy, Flags: []string{"namespace"},
			Says: forModern + ": a legacy lock has no fencing numbers and no queue of waiters"},
		{If: f.moves(), Flags: []string{"mode"}, Says: notForBridge + ": the bridge is always hardened"},
		{If: f.moves(), Flags: []string{"replicas"},
			Says: notForBridge + ": the bridge does not wait for replicas"},
		{If: f.verbatim(), Flags: []string{"greatest", "spread", "behind", "ahead", "gap"},
			Says: "--%s is for --mode hardened: an old client has no such setting, and verbatim does what it does"},
		// A claim of --behind lets run take over a lock whose time is past, and
		// only a named dialect says that this time is the end of a lease. Where
		// it is the start, every lock of an old client would be taken over.
		{If: !modern && !f.verbatim() && !f.dialect.Given(), Flags: []string{"behind"},
			Says: out.BehindNeedsDialect},
	}
}

// checkValues refuses values that no lock can have.
func (f *runFlags) checkValues(given func(flag string) bool) error {
	switch {
	case f.keep < 0:
		return out.WrongUse("--keep is %v; it must not be negative", f.keep)
	case f.graceGiven && f.grace < 0:
		return out.WrongUse("--grace %v is negative", f.grace)
	case f.server.Quorum:
		return f.checkGreatest()
	case f.protocol == protocolAuto && !given("namespace"):
		return out.WrongUse("--protocol auto follows the migration of a namespace: name it by --namespace (\"\" for all keys)")
	case f.mode != "hardened" && f.mode != "verbatim":
		return out.WrongUse("--mode %q is unknown; write hardened or verbatim", f.mode)
	case f.verbatim() && f.ttl != 0 && f.terms.Lease != 0 && f.ttl != f.terms.Lease:
		return out.WrongUse("--ttl %v and --lease %v are the same thing in --mode verbatim: give one", f.ttl,
			f.terms.Lease)
	}
	return nil
}

// checkGreatest refuses times that the servers of a quorum cannot keep.
func (f *runFlags) checkGreatest() error {
	switch own := max(f.ttl, f.keep); {
	case max(own, f.terms.Greatest) > quorum.LongestTTL:
		return out.WrongUse("--ttl, --keep or --greatest is above %v, the longest TTL in a quorum",
			quorum.LongestTTL)
	case own > f.greatestTTL():
		return out.WrongUse("--greatest %v is less than --ttl or --keep (%v): it is the longest TTL of any client on these servers, this one included, and all of them must give the same",
			f.greatestTTL(), own)
	}
	return nil
}
