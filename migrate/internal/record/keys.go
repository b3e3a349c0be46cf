package record

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Prefix is how the names of records begin.
const Prefix = "gsl:phase:"

// Key is the name of a namespace's record. A namespace holds no colon and an id
// neither, so no two names are the same.
func Key(namespace string) string { return Prefix + namespace }

// RosterKey is the name of the hash that holds a namespace's members: the field
// [NonceField], a field for each member, named by its id, and [GoneField].
func RosterKey(namespace string) string { return "gsl:roster:" + namespace }

// Fields of the roster that are no members. An id is longer.
const (
	NonceField = "nonce" // text drawn by whoever began the hash; the record repeats it
	GoneField  = "gone"  // count of members silent for long, with the last names
)

// OldMemberKey is the name of what a member up to wire version 2 said of itself.
func OldMemberKey(namespace, id string) string { return "gsl:member:" + namespace + ":" + id }

// LogKey is the name of the list of steps that were taken.
func LogKey(namespace string) string { return "gsl:log:" + namespace }

// ProbeKey is the name of the key on which a member tries its scripts.
func ProbeKey(namespace, id string) string { return "gsl:probe:" + namespace + ":" + id }

// SeenKey is the name of what an observer saw of the old clients.
func SeenKey(namespace string) string { return "gsl:seen:" + namespace }

// LivedKey is the name of the sum by which members find out how many they are.
func LivedKey(namespace string) string { return "gsl:lived:" + namespace }

// LivedField is the one field of that sum's hash. A hash is taken for a lock by
// no client; a number of that size as a string reads as a stamp.
const LivedField = "ms"

// CheckNamespace refuses names in which keys could not be told apart.
func CheckNamespace(namespace string) error {
	bad := strings.ContainsFunc(namespace, func(r rune) bool {
		return strings.ContainsRune(":{} ", r) || r == utf8.RuneError || !unicode.IsPrint(r)
	})
	if bad {
		return fmt.Errorf("migrate: namespace %q: only printable characters without colons, blanks and braces are allowed", namespace)
	}
	return nil
}

// NewID draws 72 bits: nobody's key is overwritten by another's.
func NewID() string {
	var raw [9]byte
	rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// Missing is the error of a namespace without a record, and says what to do.
func Missing(namespace string) error {
	given := ""
	if namespace != "" {
		given = " --namespace " + namespace
	}
	return fmt.Errorf("there is no record %s: begin with getsetlock migrate init%s", Key(namespace), given)
}

// ProbeOK is what a member says of its probe where all went well.
const ProbeOK = "ok"

// BeatsMissed is how many heartbeats may fail to come before a member counts as
// vanished, and go unanswered before it makes no further attempt.
const BeatsMissed = 3

// LeastRenewals is how long a member at least renews its leases while its
// heartbeats go unanswered.
const LeastRenewals = time.Minute

// RenewalsFor is how long a member whose heartbeats are every apart renews its
// leases after the last answered one.
func RenewalsFor(every time.Duration) time.Duration {
	return max(BeatsMissed*every, LeastRenewals)
}

// Late is how long after it was sent a command can reach the server.
const Late = 2 * time.Second
