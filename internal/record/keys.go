// SPDX-License-Identifier: Apache-2.0

package record

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/scope"
)

// Prefix and RosterPrefix are how the names of records and of rosters begin.
// Pattern matches both for SCAN, and no other key that getsetlock writes.
const (
	Prefix       = "gsl:phase:"
	RosterPrefix = "gsl:roster:"
	Pattern      = "gsl:[pr][ho]*"
)

// Key is the name of a namespace's record. In key names a namespace has no
// colon, and an id has none either, so no two keys are the same.
func Key(namespace string) string { return Prefix + scope.InName(namespace) }

// NamespaceOf is the namespace whose record has this key.
func NamespaceOf(key string) (namespace string, ok bool) { return named(key, Prefix) }

// RosterOf is the namespace whose roster has this key.
func RosterOf(key string) (namespace string, ok bool) { return named(key, RosterPrefix) }

func named(key, prefix string) (namespace string, ok bool) {
	name, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return "", false
	}
	return scope.OfName(name)
}

// RosterKey is the name of the hash that holds a namespace's members: the field
// [NonceField], a field for each member, named by its id, and [GoneField].
func RosterKey(namespace string) string { return RosterPrefix + scope.InName(namespace) }

// Fields of the roster that are no members. A member's id is longer.
const (
	NonceField = "nonce" // random text from when the hash began; the record repeats it
	GoneField  = "gone"  // count of members silent for long, see Gone
)

// LogKey is the name of the list of steps that were taken.
func LogKey(namespace string) string { return "gsl:log:" + scope.InName(namespace) }

// ProbeKey is the name of the key on which a member tries its scripts.
func ProbeKey(namespace, id string) string { return "gsl:probe:" + scope.InName(namespace) + ":" + id }

// SeenKey is the name of what watchers saw of the old clients.
func SeenKey(namespace string) string { return "gsl:seen:" + scope.InName(namespace) }

// TurnKey is the key that a member holds while it tries another member's key of
// the target.
func TurnKey(namespace string) string { return "gsl:turn:" + scope.InName(namespace) }

// LivedKey is the name of the sum that shows members how many they are.
func LivedKey(namespace string) string { return "gsl:lived:" + scope.InName(namespace) }

// LivedField is the one field of that sum's hash. No client takes a hash for a
// lock, whereas a number of that size as a string reads as a stamp.
const LivedField = "ms"

// CheckNamespace refuses a namespace that people cannot read.
func CheckNamespace(namespace string) error {
	if !scope.IsName(namespace) {
		return fmt.Errorf("migrate: namespace %q: only printable characters are allowed", namespace)
	}
	return nil
}

// NewID draws 72 random bits, so that no two ids are the same.
func NewID() string {
	var raw [9]byte
	rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// Missing is the error of a namespace without a record, and says what to do.
func Missing(namespace string) error {
	given := ""
	if namespace != "" {
		given = " --namespace " + shellWord(namespace)
	}
	return fmt.Errorf("there is no record %s: begin with getsetlock migrate init%s", Key(namespace), given)
}

// shellWord quotes a text as one word of a command line.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:/@%+="
	if strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ProbeOK is the result of a probe without an error.
const ProbeOK = "ok"

// BeatsMissed is how many heartbeats may be missed before a member counts as
// vanished, and be unanswered before it makes no further attempt.
const BeatsMissed = 3

// LeastRenewals is how long a member renews its leases while its heartbeats are
// unanswered, unless three periods are longer or its program sets less. A
// program may not set more.
const LeastRenewals = time.Minute

// RenewalsFor is how long a member renews its leases after the last answered
// heartbeat, for a time between heartbeats.
func RenewalsFor(every time.Duration) time.Duration {
	return max(BeatsMissed*every, LeastRenewals)
}

// Late is how long after it was sent a command may still reach the server.
const Late = 2 * time.Second
