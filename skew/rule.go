package skew

// Rule is a safety rule of ours that a scenario can take out, to see what it prevents.
type Rule uint64

// The rules. Those whose parameter is a number (the lease rule, margins, settle) are broken by giving
// another number.
const (
	// ruleCompareAndSet: ours takes over by compare-and-set. Without it, by GET, judging and GETSET.
	ruleCompareAndSet Rule = 1 << iota
	// ruleTwoKeys: M excludes ours from ours. Without it L alone does.
	ruleTwoKeys
	// ruleToken: renewal and release compare M's token. Without it whoever has M is taken for oneself.
	ruleToken
	// ruleRenewalLooks: the renewal looks at L. Without it M is renewed and L is left as it is.
	ruleRenewalLooks
	// ruleReleaseLooks: the release looks at L. Without it it deletes whatever is there.
	ruleReleaseLooks
	// ruleKeepM: M stays when L was lost. Without it the renewal that finds out gives M back.
	ruleKeepM
	// ruleTrustFromSent: trust counts from before the request was sent. Without it from the reply.
	ruleTrustFromSent
	// ruleFreshSample: an observation whose last look is too old starts anew.
	ruleFreshSample
	// ruleSettleEvery: in or-mine dialects every acquisition settles. Without it only takeovers.
	ruleSettleEvery
	// ruleSettlePassedOn: an unsettled guard hands the rest of its settle on.
	ruleSettlePassedOn
	// ruleUnsettledDeleted: in or-mine dialects an unsettled guard is deleted, not replaced by a tombstone.
	ruleUnsettledDeleted
	// ruleRestoreWithM: a tombstone is put back only by a script that takes M.
	ruleRestoreWithM
	// ruleTombstonesLast: tombstones are deleted only where no lease hangs on them.
	ruleTombstonesLast
	// ruleNoPhaseNoLock: a member that never read the record refuses. Without it it takes M alone.
	ruleNoPhaseNoLock
	// ruleLongAfterGap: in phase modern only a renewal more than Gap later asks for the long lease.
	ruleLongAfterGap
	// ruleOneStep: the record moves only when no member, and for modern and clean no lease, lags behind.
	ruleOneStep
	// ruleMarkHasTTL: a stamp of ours is only known by its bytes and a TTL. Without it the bytes will do.
	ruleMarkHasTTL
	// ruleAcquireLooks: the acquire script looks at L. Without it it takes M and writes over L.
	ruleAcquireLooks
	// ruleTombstoneTTL: every renewal gives the tombstone its long TTL back.
	ruleTombstoneTTL
	// ruleReleasedNotPassed: a grant whose release was ever sent is not handed on.
	ruleReleasedNotPassed
	// ruleFreshToken: every attempt has a token of its own. Without it a client uses one for all, and begins
	// again while a release is still on its way.
	ruleFreshToken
	// ruleMarkSameTTL: where old clients set TTLs too, a stamp is ours only if it ends together with M.
	// Without it any TTL will do.
	ruleMarkSameTTL
	// ruleStampInM: M says which stamp was written to L. Without it the client goes by what it last heard.
	ruleStampInM
	// ruleUnreadableHeld: what is no stamp is held. Without it it is taken over.
	ruleUnreadableHeld
	// ruleTrustPTTL: trust never goes beyond the PTTL that a look at L brought.
	ruleTrustPTTL
	// ruleStepAdds: what the server's clock gains on a client's elapsed time is added to how far the slowest
	// old clock is behind.
	ruleStepAdds
	// ruleQuietGate: sealed and later phases wait until no old client is in an attempt or holds.
	ruleQuietGate
	// ruleInitLast: after clean, old clients start only when no member and no lease is at clean any more.
	ruleInitLast
	// ruleOlderMovesNobody: a record older than the one that a member has read does not move it. Without it
	// a member takes up whatever the record says.
	ruleOlderMovesNobody
	// ruleOlderOpensNothing: while a member has read a later record than stands there, no gate opens and nobody
	// is told that old clients may start.
	ruleOlderOpensNothing
	// ruleVanishedBlocks: a member whose heartbeats have stopped keeps every gate shut. Without it gates ask
	// only those that beat, if there are any.
	ruleVanishedBlocks
	// ruleEmptyCloses: a gate that hears of nobody is closed. Without it what is asked of every member of an
	// empty registry holds.
	ruleEmptyCloses
	// ruleStampAhead: a stamp of ours lies beyond every clock. Without it it ends with the lease.
	ruleStampAhead
	// ruleLookAfterReply: a look's readings are taken after the reply that showed the bytes. Without it, where
	// the time is asked for by a command of its own, before.
	ruleLookAfterReply
	// ruleLookElapsed: a look ages by elapsed time, by the server's clock only with something off, and begins
	// anew where the two disagree. Without it the server's clock alone says how old it is.
	ruleLookElapsed
	// ruleRunID: under another run id measured bounds are unknown and looks begin anew.
	ruleRunID
	// rulePause: the window before clean is as long as old clients pause, so that none of them comes back.
	rulePause
	// ruleLeftIsNobodys: an attempt that meets an old client deletes M only where M says that nobody holds. Without
	// it whatever M is there.
	ruleLeftIsNobodys
	// ruleFieldFirst: a member reads the record when its field of the registry stands. Without it it may read and
	// act first.
	ruleFieldFirst
	// ruleReadsThenActs: who comes back after a silence makes no attempt before it has read the record. Without it
	// the field that it wrote is enough.
	ruleReadsThenActs
	// ruleLostWaits: a registry that may have lost members closes every gate until their leases are over. Without
	// it gates go by those who are there.
	ruleLostWaits
	// ruleRenewalsStop: a member that nobody hears renews no longer than those who wait for its leases count.
	ruleRenewalsStop
	// ruleAttemptsStop: nor does it take new ones.
	ruleAttemptsStop
	// ruleRecordThenRoster: a verb reads the record, and the registry afterwards. Without it the other way round.
	ruleRecordThenRoster
	// ruleVerbCompares: a verb writes only if no other step was taken since it read the record.
	ruleVerbCompares
	// ruleCarvedAcknowledged: a carved namespace takes no step before every member of the shorter one has
	// acknowledged the carving. Without it its gates ask those that have.
	ruleCarvedAcknowledged
	// ruleCarvedLeases: nor while a lease runs that was taken before. Without it such leases, which the shorter
	// one's roster counts, are asked of nobody.
	ruleCarvedLeases
)

var ruleNames = [...]string{
	"compare and set", "two keys", "token compared", "renewal looks at L", "release looks at L", "M kept after a loss",
	"trust from before sending", "fresh samples", "settle after every acquisition", "settle passed on",
	"unsettled guard deleted", "tombstone put back only with M", "tombstones deleted last", "no phase, no lock",
	"long lease only after the gap", "one step at a time", "mark has a TTL", "acquire looks at L",
	"tombstone's TTL restored", "released grant not passed on",
	"token new for every attempt", "mark ends with M", "stamp remembered in M", "unreadable is held", "trust within the PTTL",
	"a step is added to behind", "no old client at the gate", "old clients start last after clean",
	"an older record moves nobody", "an older record opens nothing", "a vanished member blocks",
	"an empty registry closes every gate",
	"stamp beyond every clock", "a look read after its reply", "a look ages by elapsed time", "bounds of one run id",
	"a window as long as old clients pause",
	"a key that is left is nobody's",
	"a field before the record", "the record before an attempt", "a lost registry waits for leases",
	"renewals of an unheard member stop", "attempts of an unheard member stop",
	"the record before the registry", "a step by comparing",
	"a carving acknowledged by all", "leases of before a carving end first",
}

func (r Rule) String() string {
	text := ""
	for i, name := range ruleNames {
		if r&(1<<i) != 0 {
			if text != "" {
				text += ", "
			}
			text += name
		}
	}
	return text
}

// broken says that a rule was taken out.
func (m *machine) broken(r Rule) bool { return m.Ours.Break&r != 0 }
