package runverb

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// forLegacy are the flags that speak of old clients: one of them asks for their protocol.
var forLegacy = []string{"dialect", "dialect-file", "mode", "lease", "greatest", "spread", "behind", "ahead", "gap"}

// forModern are the flags that the old clients' lock cannot follow, and why.
var forModern = [][2]string{
	{"replicas", "the old clients' lock does not wait for replicas"},
	{"namespace", "the old clients' lock has no fencing numbers and no lines of waiters"},
}

// How a lock is kept in a fleet that moves; the others are those of ls.
const protocolAuto = "auto"

var runProtocols = []string{out.ProtocolModern, out.ProtocolLegacy, out.ProtocolDual, protocolAuto}

// moves reports that the lock is kept by the bridge.
func (f *runFlags) moves() bool { return f.protocol == out.ProtocolDual || f.protocol == protocolAuto }

// check refuses flags that contradict each other; times against times come later.
func (f *runFlags) check(cmd *cobra.Command) error {
	if err := f.pickProtocol(cmd); err != nil {
		return err
	}
	if f.keep < 0 {
		return out.WrongUse("--keep is %v; it must not be negative", f.keep)
	}
	if len(f.also) > 0 && f.protocol != protocolAuto {
		return out.WrongUse("--also is for --protocol auto: it names namespaces that a migration may carve out of --namespace")
	}
	f.waitGiven = cmd.Flags().Changed("wait")
	f.graceGiven = cmd.Flags().Changed("grace")
	if f.graceGiven && f.grace < 0 {
		return out.WrongUse("--grace %v is negative", f.grace)
	}
	switch {
	case f.protocol != out.ProtocolLegacy, f.mode == "hardened":
		return nil
	case f.mode != "verbatim":
		return out.WrongUse("--mode %q is not known; there are hardened and verbatim", f.mode)
	}
	for _, name := range []string{"greatest", "spread", "behind", "ahead", "gap"} {
		if cmd.Flags().Changed(name) {
			return out.WrongUse("--%s is for --mode hardened: the old client knows nothing of it", name)
		}
	}
	if f.ttl != 0 && f.terms.Lease != 0 && f.ttl != f.terms.Lease {
		return out.WrongUse("--ttl %v and --lease %v are the same thing in --mode verbatim: give one", f.ttl, f.terms.Lease)
	}
	return nil
}

// pickProtocol settles the protocol. Who speaks of old clients wants theirs.
func (f *runFlags) pickProtocol(cmd *cobra.Command) error {
	given := cmd.Flags().Changed("protocol")
	ofOld := ""
	for _, name := range forLegacy {
		if cmd.Flags().Changed(name) {
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
		return out.WrongUse("--protocol %q is not known; there are %s", f.protocol, strings.Join(runProtocols, ", "))
	case f.moves():
		return f.checkMoving(cmd)
	}
	if f.protocol == out.ProtocolModern && ofOld != "" {
		return out.WrongUse("--%s is for --protocol legacy: it says how old clients behave, with whom a token lock takes no turns", ofOld)
	}
	for _, flag := range forModern {
		if f.protocol == out.ProtocolLegacy && cmd.Flags().Changed(flag[0]) {
			asks := ""
			if !given {
				asks = ", and --" + ofOld + " asks for legacy"
			}
			return out.WrongUse("--%s is for --protocol modern%s: %s", flag[0], asks, flag[1])
		}
	}
	return nil
}

// checkMoving refuses what the bridge cannot follow.
func (f *runFlags) checkMoving(cmd *cobra.Command) error {
	for _, flag := range [][2]string{
		{"mode", "the bridge always is hardened"}, {"replicas", "the bridge does not wait for replicas"},
	} {
		if cmd.Flags().Changed(flag[0]) {
			return out.WrongUse("--%s is not for --protocol %s: %s", flag[0], f.protocol, flag[1])
		}
	}
	if f.protocol == protocolAuto && !cmd.Flags().Changed("namespace") {
		return out.WrongUse("--protocol auto goes by the record of a namespace: name it by --namespace (which may be empty, for all keys)")
	}
	return nil
}
