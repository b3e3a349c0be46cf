// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// forLegacy are the flags that describe old clients. Any of them selects the
// legacy protocol.
var forLegacy = []string{"dialect", "dialect-file", "mode", "lease", "greatest", "spread", "behind", "ahead",
	"gap"}

// forModern are the flags that the legacy protocol cannot follow, each with the
// reason.
var forModern = [][2]string{
	{"replicas", "a legacy lock does not wait for replicas"},
	{"namespace", "a legacy lock has no fencing numbers and no queue of waiters"},
}

// protocolAuto follows a namespace's migration. The other protocols have the
// names that ls prints.
const protocolAuto = "auto"

var runProtocols = []string{out.ProtocolModern, out.ProtocolLegacy, out.ProtocolDual, protocolAuto}

// moves reports whether the bridge keeps the lock.
func (f *runFlags) moves() bool { return f.protocol == out.ProtocolDual || f.protocol == protocolAuto }

// check refuses flags that contradict each other. Durations are compared with
// each other later, in New of the backends.
func (f *runFlags) check(e *out.Env, cmd *cobra.Command) (err error) {
	if f.target, err = f.server.PickTarget(e); err != nil {
		return err
	}
	if f.target != nil {
		return f.checkTarget(cmd)
	}
	if err := cmp.Or(f.checkQuorum(cmd), f.pickProtocol(cmd)); err != nil {
		return err
	}
	if err := f.checkTimes(cmd); err != nil {
		return err
	}
	if err := f.checkBehind(cmd); err != nil {
		return err
	}
	switch {
	case f.protocol != out.ProtocolLegacy, f.mode == "hardened":
		return nil
	case f.mode != "verbatim":
		return out.WrongUse("--mode %q is unknown; write hardened or verbatim", f.mode)
	}
	for _, name := range []string{"greatest", "spread", "behind", "ahead", "gap"} {
		if cmd.Flags().Changed(name) {
			return out.WrongUse("--%s is for --mode hardened: an old client has no such setting, and verbatim does what it does", name)
		}
	}
	if f.ttl != 0 && f.terms.Lease != 0 && f.ttl != f.terms.Lease {
		return out.WrongUse("--ttl %v and --lease %v are the same thing in --mode verbatim: give one", f.ttl,
			f.terms.Lease)
	}
	return nil
}

// checkBehind refuses a --behind without a dialect, and drops the claim of the
// environment. Such a claim lets run take over a lock whose time is past, and
// only a named dialect says that this time is the end of a lease. Where it is
// the start, every lock that an old client holds would be taken over.
func (f *runFlags) checkBehind(cmd *cobra.Command) error {
	if f.dialect.Given() || f.mode == "verbatim" || f.protocol == out.ProtocolModern {
		return nil
	}
	if cmd.Flags().Changed("behind") {
		return out.WrongUse(out.BehindNeedsDialect)
	}
	if f.protocol != protocolAuto { // the record may have the claim
		f.terms.Behind = 0
	}
	return nil
}

// checkTimes refuses times that no lock can have.
func (f *runFlags) checkTimes(cmd *cobra.Command) error {
	f.waitGiven = cmd.Flags().Changed("wait")
	f.graceGiven = cmd.Flags().Changed("grace")
	switch {
	case f.keep < 0:
		return out.WrongUse("--keep is %v; it must not be negative", f.keep)
	case f.graceGiven && f.grace < 0:
		return out.WrongUse("--grace %v is negative", f.grace)
	}
	return nil
}

// pickProtocol chooses the protocol. A flag that describes old clients selects
// legacy.
func (f *runFlags) pickProtocol(cmd *cobra.Command) error {
	given := cmd.Flags().Changed("protocol")
	ofOld := ""
	for _, name := range forLegacy {
		if cmd.Flags().Changed(name) && !f.server.Quorum {
			ofOld = name
			break
		}
	}
	switch {
	case !given && ofOld != "":
		f.protocol = out.ProtocolLegacy
	case !given:
		f.protocol = out.ProtocolModern
	case !slices.Contains(runProtocols, f.protocol):
		return out.WrongUse("--protocol %q is unknown; write one of %s", f.protocol,
			strings.Join(runProtocols, ", "))
	case f.moves():
		return f.checkMoving(cmd)
	}
	if f.protocol == out.ProtocolModern && ofOld != "" {
		return out.WrongUse(
			"--%s is for --protocol legacy: it describes old clients, and they cannot share a token lock",
			ofOld)
	}
	for _, flag := range forModern {
		if f.protocol == out.ProtocolLegacy && cmd.Flags().Changed(flag[0]) {
			asks := ""
			if !given {
				asks = ", and --" + ofOld + " selects legacy"
			}
			return out.WrongUse("--%s is for --protocol modern%s: %s", flag[0], asks, flag[1])
		}
	}
	return nil
}

// checkMoving refuses flags that the bridge cannot follow.
func (f *runFlags) checkMoving(cmd *cobra.Command) error {
	for _, flag := range [][2]string{
		{"mode", "the bridge is always hardened"}, {"replicas", "the bridge does not wait for replicas"},
	} {
		if cmd.Flags().Changed(flag[0]) {
			return out.WrongUse("--%s is not for --protocol %s: %s", flag[0], f.protocol, flag[1])
		}
	}
	if f.protocol == protocolAuto && !cmd.Flags().Changed("namespace") {
		return out.WrongUse("--protocol auto follows the migration of a namespace: name it by --namespace (\"\" for all keys)")
	}
	return nil
}
