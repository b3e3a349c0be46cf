// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var simulation = flag.Int("simulation", 0,
	"play so many seeds of internal/sim against each mutant of the simulated packages, and count the kills")

// simulated are the folders whose code runs in internal/sim.
var simulated = []string{"lock/", "modern/", "legacy/", "migrate/", "internal/twokey/", "internal/record/",
	"internal/operator/fleet/", "quorum/"}

// complaint matches what internal/sim prints when a judge complains, and what
// package fleet prints about a trial of a gate.
var complaint = regexp.MustCompile(`(?m)^\s*(sim_test\.go:\d+: seed \d+: \w+ at|trial_test\.go:\d+:) .*`)

// noClient matches what it prints when a plan's Client cannot be made.
var noClient = regexp.MustCompile(`(?m)^\s*world\.go:\d+: sim: (seed \d+: .*)`)

// TestSimulationKillsMutants does nothing without -simulation. The flag
// -mutants narrows it. A mutant is killed if a judge complains; one that makes
// a play stand still, or run out of time, is not.
func TestSimulationKillsMutants(t *testing.T) {
	if *simulation == 0 {
		return
	}
	all, err := lists()
	if err != nil {
		t.Fatal(err)
	}
	killed, played := 0, 0
	for _, m := range all {
		if !m.simulated() {
			continue
		}
		played++
		verdict := m.play(t)
		if strings.HasPrefix(verdict, "killed") {
			killed++
		}
		fmt.Printf("%s: %s: %s\n", m.at, m.file, verdict)
	}
	fmt.Printf("the simulation kills %d of %d mutants within %d seeds\n", killed, played, *simulation)
}

// unseen are the tests whose mutants the simulation cannot see, and why. These
// mutants are not counted. Processes of the simulation get everything that they
// do from lock.Client, so some mutants change nothing that can happen there.
var unseen = map[string]string{
	"TestAcquireSaysLowerTTLIfTheStoreGrantsLess":   "the words of an error",
	"TestClientBoundsCallsThatWaitForAHook":         "no hook of the simulation blocks",
	"TestClientBoundsJitterOutOfBounds":             "the jitter of the simulation keeps its bounds",
	"TestClientInspectsAndFreesAKey":                "no operation inspects a key, or frees it by hand",
	"TestDeleteByTokenSparesTheTombstone":           "no key is sealed by a migration",
	"TestErrorNamesAQueueOfAnotherType":             "the words of an error",
	"TestFaultWithoutOpFailsEveryCall":              "the store for users' tests does not run",
	"TestForcedReleaseGivesToo":                     "no operation frees a key by hand",
	"TestGiftIsNotTrustedForLongerThanItWasWritten": "no Client changes its TTL",
	"TestInspectNamesABackendThatCannot":            "the words of an error",
	"TestKeyThatStaysTakenIsLoggedByDefault":        "log lines",
	"TestKeyWithAnEmptyValueIsNotGiven":             "no other program writes to a key",
	"TestKeyWithoutRightsFailsOnlyItsOwnRenewal":    "all keys have the same rights",
	"TestKeysOfGetsetlockAreRefused":                "no operation names such a key",
	"TestLogNamesAKeyOfManyAttemptsOnce":            "log lines",
	"TestLongWaitNamesWhatItWaitsForOnce":           "log lines",
	"TestOldClientIsSeenByAttemptAndByRelease":      "keys are only left to old clients more often",
	"TestOrderPanicsAtAFaultWithoutEffect":          "the store for users' tests does not run",
	"TestAcquireWaitsWhileTheStoreIsAway":           "the store for users' tests does not run",
	"TestRecordVoidsASmallerBoundOfAMember":         "no migration has a record",
	"TestReleaseWorksWithAnUnreadableCounter":       "no other program writes to the counter",
	"TestValueThatResemblesLeftKeyIsHeld":           "no other program writes to a key",
	"TestWithKeepsAMarginThatTheCallerSet":          "no Client changes its TTL",
	"TestClientLooksAtALeftKeyUntilTheGapEnds":      "an old client that came is only seen later",
	"TestPausesBetweenUndosAreAThirdOfTheTTL":       "a doubled pause ends with the TTL, hardly later",
	"TestGiftDrawsAsManyNumbersAsItsWaiterWants":    "all processes want as many numbers",
	"TestGiftBeforeAnyRefusalIsAskedFor":            "the server refuses each place before it gives to it",
	"TestLostGiftLeavesNoPlace":                     "only a quorum keeps a vote that was lost",
	"TestMessageDuringAReleaseDoesNothing":          "a second release comes behind the first one",
	"TestReleaseDoesNotGiveTheKeyToItsHolder":       "no answer of the server is wrong",
	"TestBridgeFreesAKeyByForceAsItsHolderWould":    "no operation frees a key by hand",
	"TestComposedFreesBothKeysByForce":              "no operation frees a key by hand",
	"TestBridgeHoldsWhatOtherVersionsLeave":         "all processes have one version",
	"TestRegistryOfOtherVersionsIsReadOrRefused":    "all processes have one version",
	"TestBridgeTakesNoTickThatIsDone":               "no old client leaves its key for ever",
	"TestKilledMembersAreFoldedIntoOneField":        "no play lasts for a week",
	"TestCleanLeavesTombstonesToTheirLastTTL":       "no play lasts for a month",
	"TestSecondWatcherKeepsTheFirstOnesWindow":      "the watcher is the simulation's own",
	"TestSightingKeepsTheLastCountedCall":           "the watcher is the simulation's own",
	"TestWatchTakesUpTheClaimsOfAStep":              "the watcher is the simulation's own",
	"TestWatcherTellsMembersWhatItSawOfClocks":      "the watcher is the simulation's own",
	"TestWatcherThatSawLessOverwritesNothing":       "the watcher is the simulation's own",
	"TestWatcherWritesAgainAfterAnother":            "the watcher is the simulation's own",
	"TestAlarmIsKeptWhileNobodyReadsTheRecord":      "the watcher is the simulation's own",
	"TestActOfAnOldClientInCleanIsAnAlarm":          "the words of a report",
	"TestAlarmInCleanCountsAttemptsInVain":          "the words of a report",
	"TestDoubtOfALeaseIsKept":                       "the watcher is the simulation's own",
	"TestGuessReplacesNoProof":                      "the watcher is the simulation's own",
	"TestStepKeepsWhatWasSeenOfClocks":              "the watcher is the simulation's own",
	"TestGateToCleanTakesRightsForAWindow":          "no right is taken away",
	"TestCountersRefuseAndProveNothing":             "nobody claims that old clients are gone",
	"TestEvidenceLapsesAndIsForgotten":              "no operator forgets what was seen",
	"TestTargetIsWrittenOnlyWhereThereIsOne":        "bytes that nobody reads otherwise",
	"TestLongLeasesTellTheLedgerFromTheStart":       "it only saves a message",
	"TestNothingSeenIsAClaim":                       "everything is claimed of the old clients",
	"TestFinishingAStepComparesTheDialect":          "the operator knows the dialect",
	"TestFailedRenewalTakesNothing":                 "what it takes comes late, and counts for nothing",
	"TestSuspendedClientLooksAgain":                 "nobody changes a server that keeps running",
	"TestTwoDatabasesOfAServerAreRefused":           "each server is named once",
	"TestQuorumRefusesWhatCannotBe":                 "no Client asks for more than the greatest TTL",
	"TestLeaseOfAKeyThatMeansDoneEnds":              "in no plan a key means done",
	"TestProbePassesWhereNobodyReleases":            "in no plan a key means done",
	"TestSecondReleaseOfALeftKeyIsDone":             "who releases again knows that it has asked before",
	"TestReleaseWithLostReplyCanBeRepeated":         "only an undo repeats it, and tells nobody",
	"TestSameBytesWithoutTTLCountAsLost":            "no old client's clock is a day ahead",
	"TestLostLIsReportedAndMStaysUntilRelease":      "tokens have one length, and no lost lease is handed over",
	"TestLostGrantIsNotRenewedWhenBytesReturn":      "lock.Client renews no lease that it was told is lost",
	"TestSettleLimitsTrustToTTLThatItRead":          "old clients set a TTL only on what they have won",
	"TestMemberCountsEveryAttemptUntilItsEnd":       "every holder gives back what it has lost",
	"TestMemberForgetsAComposedLeaseThatIsLost":     "every holder gives back what it has lost",
	"TestTombstoneGetsItsTimeBack":                  "a count, and a guess that the scripts check",
	"TestSettleThatLostSaysHowLongTheBytesMustStay": "the words of an error",
	"TestGrantsOfAnotherBackendAreRefused":          "each process has one backend",
	"TestAttemptOfAForgottenMemberGetsNoLock":       "such a grant is older than its TTL, so no Client takes it",
	"TestAttemptOfAFrozenMemberGetsNoLock":          "such a grant is older than its TTL, so no Client takes it",

	"TestPlacesOfTheDeadAreNotGivenTheKey":        "a place that is not first lapses with its time in the queue",
	"TestComposeRefusesACluster":                  "no server is a cluster",
	"TestComposedSessionPassesTheKitInEveryPhase": "a waiter that cannot watch the old server polls",
	"TestTargetIsRenewedAfterATakeoverSettled":    "the old key's part of the term is as old, and ends the lease",
	"TestReleaseGoesOnWhereTheTargetDidNotAnswer": "only an undo asks again, and tells nobody",
	"TestTwoTargetsOfOneNameAreTold":              "all members have one target",
	"TestTargetOnTheOldKeysIsRefused":             "the target is a server of its own",

	// Of a test with several mutants: how the line begins that one changes.
	"if k.hurry.Load() {": "a call whose context has ended sends nothing",
	"if t.Given {":        "the server refuses each place before it gives to it",
	"if _, left :=":       "no operation inspects a key",
	"if err := a.counts":  "such a grant is older than its TTL, so no Client takes it",
}

// is reports whether a name of unseen is the mutant's.
func (m mutant) is(name string) bool {
	return m.test == name || strings.HasPrefix(strings.TrimSpace(m.old), name)
}

// seen reports whether the simulation can see the mutant. It has no real server
// and no client of package dialect alone.
func (m mutant) seen() bool {
	for name := range unseen {
		if m.is(name) {
			return false
		}
	}
	return m.tags == "" && !strings.HasPrefix(m.file, "internal/dialect/")
}

func TestUnseenMutantsAreInTheLists(t *testing.T) {
	all, err := lists()
	if err != nil {
		t.Fatal(err)
	}
	for name := range unseen {
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.is(name) }) {
			t.Errorf("no list names %s", name)
		}
	}
}

// simulated reports whether the mutant's code runs in the simulation, where it
// can be seen.
func (m mutant) simulated() bool {
	if *which != "" && *which != "all" && !strings.HasPrefix(m.file, *which) &&
		!strings.HasPrefix(m.at, *which) {
		return false
	}
	return m.seen() && slices.ContainsFunc(simulated,
		func(folder string) bool { return strings.HasPrefix(m.file, folder) })
}

// form are the forms of plans in which the mutant's code runs; empty: all.
func (m mutant) form() string {
	switch engine := "internal/twokey/"; {
	case strings.HasPrefix(m.file, engine) && !strings.HasPrefix(m.file, engine+"guard"):
		return "hardened,beside,bridge" // package legacy has stamps, and the bridge has them in observe
	case strings.HasPrefix(m.file, "migrate/"), strings.HasPrefix(m.file, "internal/"):
		return "bridge"
	case strings.HasPrefix(m.file, "quorum/"), m.file == "modern/member.go":
		return "quorum"
	}
	return ""
}

// play plays the seeds against the mutant and says what came of it.
func (m mutant) play(t *testing.T) string {
	t.Helper()
	out, err := goTestWith("internal/sim", "", "^TestNoSeedBreaksAPromise$",
		[]string{"-overlay", m.overlay(t), "-timeout=20m"},
		fmt.Sprintf("-seeds=%d", *simulation), "-shrink=false", "-form="+m.form())
	if err == nil && m.form() == "bridge" { // the gates are tried without a play
		out, err = goTest("internal/operator/fleet", "", "^TestTrials$", "-overlay", m.overlay(t))
	}
	said := complaint.FindString(out)
	switch {
	case err == nil:
		return "survived"
	case noReason.MatchString(out):
		return "does not compile"
	case said != "":
		_, said, _ = strings.Cut(strings.TrimSpace(said), ": ")
		return "killed: " + said
	case noClient.MatchString(out):
		return "killed: no Client: " + noClient.FindStringSubmatch(out)[1]
	case strings.Contains(out, "panic: "):
		return "killed: panic"
	}
	return "no verdict: " + strings.Join(strings.Fields(out[:min(300, len(out))]), " ")
}
