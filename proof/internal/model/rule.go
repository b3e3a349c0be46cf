// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Rule is a safety rule of getsetlock clients that a scenario can break, to see
// what the rule prevents.
type Rule uint64

// The rules. A rule whose parameter is a number (the lease rule, margins,
// settle) is broken by giving another number.
const (
	// ruleCompareAndSet: a getsetlock client takes over by compare-and-set.
	// Without it: by GET, a decision and GETSET.
	ruleCompareAndSet Rule = 1 << iota
	// ruleTwoKeys: M excludes getsetlock clients from each other. Without it
	// only L does.
	ruleTwoKeys
	// ruleToken: renewal and release compare M's token. Without it a client
	// takes any token on M for its own.
	ruleToken
	// ruleRenewalLooks: the renewal looks at L. Without it, it renews M and
	// leaves L as it is.
	ruleRenewalLooks
	// ruleReleaseLooks: the release looks at L. Without it, it deletes whatever
	// is there.
	ruleReleaseLooks
	// ruleKeepM: M stays when L was lost. Without it the renewal that finds the
	// loss deletes M.
	ruleKeepM
	// ruleTrustFromSent: trust counts from before the request was sent. Without
	// it: from the reply.
	ruleTrustFromSent
	// ruleFreshSample: an observation starts anew when its last look is too
	// old.
	ruleFreshSample
	// ruleSettleEvery: in or-mine dialects every acquisition settles. Without
	// it only takeovers settle.
	ruleSettleEvery
	// ruleSettlePassedOn: an unsettled guard hands over the rest of its settle.
	ruleSettlePassedOn
	// ruleUnsettledDeleted: in or-mine dialects an unsettled guard is deleted.
	// Without it a tombstone replaces it.
	ruleUnsettledDeleted
	// ruleRestoreWithM: only a script that takes M puts a tombstone back.
	ruleRestoreWithM
	// ruleTombstonesLast: a tombstone is deleted only when no lease depends on
	// it.
	ruleTombstonesLast
	// ruleNoPhaseNoLock: a member that never read the record refuses to lock.
	// Without it, it takes M alone.
	ruleNoPhaseNoLock
	// ruleLongAfterGap: in phase modern only a renewal more than Gap later asks
	// for the long lease.
	ruleLongAfterGap
	// ruleOneStep: the record moves only when no member lags behind, and to
	// modern or clean only when no lease does.
	ruleOneStep
	// ruleMarkHasTTL: a client knows its stamp by its bytes and a TTL. Without
	// it the bytes are enough.
	ruleMarkHasTTL
	// ruleAcquireLooks: the acquire script looks at L. Without it, it takes M
	// and overwrites L.
	ruleAcquireLooks
	// ruleTombstoneTTL: every renewal restores the tombstone's long TTL.
	ruleTombstoneTTL
	// ruleReleasedNotPassed: a grant is not handed over once a release was sent
	// for it.
	ruleReleasedNotPassed
	// ruleFreshToken: every attempt has its own token. Without it a client uses
	// one token for all attempts, and begins a new one while a release is still
	// on its way.
	ruleFreshToken
	// ruleMarkSameTTL: where old clients set TTLs too, a client knows its stamp
	// by the TTL that ends together with M. Without it any TTL is enough.
	ruleMarkSameTTL
	// ruleStampInM: M says which stamp was written to L. Without it the client
	// uses the last reply it received.
	ruleStampInM
	// ruleUnreadableHeld: a value that is not a stamp is held. Without it a
	// client takes it over.
	ruleUnreadableHeld
	// ruleTrustPTTL: trust never goes beyond the PTTL that a look at L
	// returned.
	ruleTrustPTTL
	// ruleStepAdds: what the server's clock gains on a client's elapsed time is
	// added to how far the slowest old clock is behind.
	ruleStepAdds
	// ruleQuietGate: sealed and later phases wait until no old client makes an
	// attempt or holds.
	ruleQuietGate
	// ruleInitLast: after clean, old clients start only when no member and no
	// lease is at clean any more.
	ruleInitLast
	// ruleOlderMovesNobody: a record older than the one that a member has read
	// does not move the member. Without it a member follows whatever the record
	// says.
	ruleOlderMovesNobody
	// ruleOlderOpensNothing: while a member has read a later record than the
	// present one, no gate opens and no verb lets old clients start.
	ruleOlderOpensNothing
	// ruleVanishedBlocks: a member whose heartbeats have stopped keeps every
	// gate closed. Without it gates ask only members that still send
	// heartbeats, if there are any.
	ruleVanishedBlocks
	// ruleEmptyCloses: an empty registry closes every gate. Without it, what is
	// asked of every member holds for an empty registry.
	ruleEmptyCloses
	// ruleStampAhead: a getsetlock stamp lies beyond every clock. Without it,
	// it ends with the lease.
	ruleStampAhead
	// ruleLookAfterReply: a look's clock is read after the reply that showed
	// the bytes. Without it, where TIME is a command of its own, the clock is
	// read before.
	ruleLookAfterReply
	// ruleLookElapsed: a look ages by elapsed time, or with a deduction by the
	// server's clock; it begins anew where the two disagree. Without it only
	// the server's clock says how old it is.
	ruleLookElapsed
	// rulePause: the window before clean is as long as old clients pause, so
	// that none of them returns later.
	rulePause
	// ruleLeftIsNobodys: an attempt that meets an old client deletes M only
	// where M says that no client holds. Without it, it deletes any M.
	ruleLeftIsNobodys
	// ruleFieldFirst: a member writes its field to the registry before it reads
	// the record. Without it, it may read and act first.
	ruleFieldFirst
	// ruleReadsThenActs: a member that returns after a silence makes no attempt
	// before it has read the record. Without it, writing its field is enough.
	ruleReadsThenActs
	// ruleLostWaits: a registry that may have lost members closes every gate
	// until their leases have ended. Without it gates ask only the members that
	// are left.
	ruleLostWaits
	// ruleRenewalsStop: a member whose heartbeats are not answered stops
	// renewing before gates stop waiting for its leases.
	ruleRenewalsStop
	// ruleAttemptsStop: such a member also stops taking new leases.
	ruleAttemptsStop
	// ruleRecordThenRoster: a verb reads the record first and the registry
	// afterwards. Without it: in the other order.
	ruleRecordThenRoster
	// ruleVerbCompares: a verb writes only if the record has not moved since it
	// read it.
	ruleVerbCompares
	// ruleOneTarget: clean waits until every member composes its locks with the
	// same store, or none does. Without it its gate does not ask.
	ruleOneTarget
	// ruleTargetAsked: the step to clean asks that again as it writes. Without
	// it, what its verb has read of the registry is enough.
	ruleTargetAsked
	// ruleApart: in clean a member takes no lock if it composes with another
	// store than the record names. Without it, it follows the record.
	ruleApart
	// ruleTargetKept: after a new beginning such a member takes no lock as long
	// as others act by clean or have a lease of it. Without it, it follows the
	// record at once.
	ruleTargetKept
	// ruleAsksAfterTaking: after an attempt has taken the lock, it asks whether
	// its member was silent for longer than it renews leases. If so, the member
	// may have been forgotten, and the lock is given back.
	ruleAsksAfterTaking
	// ruleReadsAfterSilence: a member that was silent for so long makes no
	// attempt before it has read a record. Without it, an answered heartbeat is
	// enough where there is no record.
	ruleReadsAfterSilence
	// ruleReadsListed: that record is read after the member's field is in the
	// registry again. Without it, one that was read before counts too.
	ruleReadsListed
	// ruleWordOfTheHeard: a lost record is written by what members say that
	// were not silent for so long. Without it, every member's word counts.
	ruleWordOfTheHeard
	// ruleOnlyClaimsPermit: only a claim says how far the slowest clock is
	// behind. Without it, what was measured is acted on too.
	ruleOnlyClaimsPermit
	// ruleContradictedIsVoid: a claim that is smaller than what was proved of
	// one client is void, and takeovers need a second look again. Without it,
	// the claim is acted on all the same.
	ruleContradictedIsVoid
)

var ruleNames = [...]string{
	"compare and set", "two keys", "token compared", "renewal looks at L", "release looks at L",
	"M kept after a loss",
	"trust from before sending", "fresh samples", "settle after every acquisition", "settle passed on",
	"unsettled guard deleted", "tombstone put back only with M", "tombstones deleted last",
	"no phase, no lock",
	"long lease only after the gap", "one step at a time", "mark has a TTL", "acquire looks at L",
	"tombstone's TTL restored", "released grant not passed on",
	"token new for every attempt", "mark ends with M", "stamp remembered in M", "unreadable is held",
	"trust within the PTTL",
	"a step is added to behind", "no old client at the gate", "old clients start last after clean",
	"an older record moves nobody", "an older record opens nothing", "a vanished member blocks",
	"an empty registry closes every gate",
	"stamp beyond every clock", "a look read after its reply", "a look ages by elapsed time",
	"a window as long as old clients pause",
	"a key that is left is nobody's",
	"a field before the record", "the record before an attempt", "a lost registry waits for leases",
	"renewals of an unheard member stop", "attempts of an unheard member stop",
	"the record before the registry", "a step by comparing",
	"one target at the gate to clean", "one target when clean is written", "no lock beside another target",
	"target kept while leases of clean run",
	"an attempt asks after it took the lock", "a record read after a silence",
	"that record read by a registered member",
	"a lost record by those who were heard",
	"only a claim permits", "a contradicted claim is void",
}

// names lists the rules of a set.
func (r Rule) names() (all []string) {
	for i, name := range ruleNames {
		if r&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return all
}

func (r Rule) String() string { return strings.Join(r.names(), ", ") }

// MarshalJSON writes the rules as a list of their names.
func (r Rule) MarshalJSON() ([]byte, error) { return json.Marshal(r.names()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Rule) UnmarshalJSON(text []byte) error {
	var all []string
	err := json.Unmarshal(text, &all)
	for _, name := range all {
		one, bad := RuleOf(name)
		*r, err = *r|one, cmp.Or(err, bad)
	}
	return err
}

// RuleOf returns the rule with a name.
func RuleOf(name string) (Rule, error) {
	i := slices.Index(ruleNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("%q is not a rule", name)
	}
	return 1 << i, nil
}

// broken reports whether the scenario breaks a rule.
func (m *machine) broken(r Rule) bool { return m.Ours.Break&r != 0 }
