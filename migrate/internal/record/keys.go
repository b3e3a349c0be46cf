package record

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/scope"
)

// Prefix is how the names of records begin.
const Prefix = "gsl:phase:"

// Key is the name of a namespace's record. As the name of a namespace holds no
// colon, and an id neither, no two keys are the same.
func Key(namespace string) string { return Prefix + scope.InName(namespace) }

// NamespaceOf is the namespace whose record has this key.
func NamespaceOf(key string) (namespace string, ok bool) {
	name, ok := strings.CutPrefix(key, Prefix)
	if !ok {
		return "", false
	}
	return scope.OfName(name)
}

// RosterKey is the name of the hash that holds a namespace's members: the field
// [NonceField], a field for each member, named by its id, and [GoneField].
func RosterKey(namespace string) string { return "gsl:roster:" + scope.InName(namespace) }

// Fields of the roster that are no members. An id is longer.
const (
	NonceField = "nonce" // text drawn by whoever began the hash; the record repeats it
	GoneField  = "gone"  // count of members silent for long, with the last names
)

// OldMemberKey is the name of what a member up to wire version 2 said of itself.
func OldMemberKey(namespace, id string) string {
	return "gsl:member:" + scope.InName(namespace) + ":" + id
}

// LogKey is the name of the list of steps that were taken.
func LogKey(namespace string) string { return "gsl:log:" + scope.InName(namespace) }

// ProbeKey is the name of the key on which a member tries its scripts.
func ProbeKey(namespace, id string) string { return "gsl:probe:" + scope.InName(namespace) + ":" + id }

// SeenKey is the name of what an observer saw of the old clients.
func SeenKey(namespace string) string { return "gsl:seen:" + scope.InName(namespace) }

// LivedKey is the name of the sum by which members find out how many they are.
func LivedKey(namespace string) string { return "gsl:lived:" + scope.InName(namespace) }

// LivedField is the one field of that sum's hash. A hash is taken for a lock by
// no client; a number of that size as a string reads as a stamp.
const LivedField = "ms"

// CheckNamespace refuses a namespace that people cannot read.
func CheckNamespace(namespace string) error {
	if !scope.IsName(namespace) {
		return fmt.Errorf("migrate: namespace %q: only printable characters are allowed", namespace)
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
		given = " --namespace " + shellWord(namespace)
	}
	return fmt.Errorf("there is no record %s: begin with getsetlock migrate init%s", Key(namespace), given)
}

// shellWord writes a text as one word of a command line that people copy.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:/@%+="
	if strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
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
