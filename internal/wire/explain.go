// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// inScript is how servers before 7.0 begin an error inside a script. The error
// itself follows in the middle, after a dash or a colon. Newer servers put it
// first.
const inScript = "ERR Error running script"

// says reports whether err has an error reply that begins with one of the
// codes, also if a command inside a script got it.
func says(err error, codes ...string) bool {
	text, ok := serverText(err)
	for _, code := range codes {
		if !ok {
			break
		}
		if strings.HasPrefix(text, code) {
			return true
		}
		if strings.HasPrefix(text, inScript) &&
			(strings.Contains(text, ": "+code) || strings.Contains(text, ": -"+code)) {
			return true
		}
	}
	return false
}

func serverText(err error) (string, bool) {
	if e, ok := err.(redis.Error); ok { // nearly always, and without allocating
		return string(e), true
	}
	if err == nil { // before e, which is allocated on the heap
		return "", false
	}
	var e redis.Error
	if errors.As(err, &e) {
		return string(e), true
	}
	return "", false
}

// IsNoScript: the server does not know the script; nothing was executed.
func IsNoScript(err error) bool { return says(err, "NOSCRIPT ") }

// IsReadOnly: the server is a replica.
func IsReadOnly(err error) bool { return says(err, "READONLY ") }

// IsLoading: the server reads its data from disk and will answer later.
func IsLoading(err error) bool { return says(err, "LOADING ") }

// IsNoPerm: the user lacks the right to the command, the key or the channel.
// Inside a script the server uses other words, and the script's earlier writes
// stay.
func IsNoPerm(err error) bool {
	return says(err, "NOPERM ", "The user executing the script can't ",
		"ERR The user executing the script can't ", "ERR ACL failure in script")
}

// IsNoAuth: the server asks for a password, or for another one.
func IsNoAuth(err error) bool {
	return says(err, "NOAUTH ", "WRONGPASS ", "ERR invalid password", "ERR AUTH ", "ERR Client sent AUTH")
}

// IsWrongType: the key holds another type than the command works on.
func IsWrongType(err error) bool { return says(err, "WRONGTYPE ") }

// IsUnknownCommand: the server lacks the command or its subcommand.
func IsUnknownCommand(err error) bool {
	return says(err, "ERR unknown command", "ERR unknown subcommand", "ERR Unknown subcommand",
		"ERR Syntax error, try CLIENT", "Unknown Redis command", "ERR Unknown Redis command",
		"ERR Unknown command")
}

// IsOOM: the server has no memory left for writes.
func IsOOM(err error) bool { return says(err, "OOM ") }

// IsBusy: a script has been running for too long.
func IsBusy(err error) bool { return says(err, "BUSY ") }

// IsCluster: the server is a node of a cluster that does not execute the
// command itself.
func IsCluster(err error) bool {
	return says(err, "MOVED ", "ASK ", "CROSSSLOT ", "CLUSTERDOWN ", "TRYAGAIN ")
}

// IsPassing: the server refuses for a reason that will pass, or that does not
// show whether it has the command.
func IsPassing(err error) bool {
	return IsCluster(err) || says(err, "LOADING ", "READONLY ", "BUSY ", "OOM ", "NOAUTH ", "MASTERDOWN ",
		"MISCONF ", "NOREPLICAS ", "DENIED ", "ERR max number of clients")
}

// IsTransient reports a refusal after which the same command may be executed a
// moment later.
func IsTransient(err error) bool {
	return says(err, "LOADING ", "BUSY ", "TRYAGAIN ", "CLUSTERDOWN ", "MASTERDOWN ", "OOM ", "MISCONF ",
		"NOREPLICAS ", "READONLY ", "ERR max number of clients")
}

// FromScript reports that err ended a script while it ran.
func FromScript(err error) bool {
	text, ok := serverText(err)
	return ok && (strings.HasPrefix(text, inScript) || strings.Contains(text, "user_script"))
}

// advice is searched from the top, so special cases come before general ones.
var advice = []struct {
	fits func(error) bool
	say  string
}{
	{IsReadOnly, "this server is a read-only replica: point the address at the primary"},
	{IsLoading, "the server is still reading its data from disk: try again when it is up"},
	{IsNoAuth, "the server rejected the user and password: check them in the address"},
	{noPermKey, "this user lacks a right to a key: let its ACL allow the lock's key and, for token locks, gsl:*; alongside old clients also {KEY}:gsl and {KEY}:gsl:look (~{PREFIX*}:gsl* allows both)"},
	{IsNoPerm, "this user lacks a right: let its ACL allow the named command, key or channel"},
	{IsWrongType, "the key holds another type than a lock's string: another program uses it"},
	{IsMoving, "this slot of the cluster is moving to another node: try again when it has arrived"},
	{
		coded("ERR This instance has cluster support disabled"),
		"the server is no node of a cluster: write redis://host:port"},
	{coded("CLUSTERDOWN "), "the cluster has lost a primary and does not serve this slot: try again when it is up"},
	{IsCluster, "this is a node of a cluster of several: write redis+cluster://host:port, for token locks"},
	{
		coded("ERR unknown command 'SENTINEL'", "ERR unknown command `SENTINEL`"),
		"this is a server and no sentinel: write redis:// or rediss://, and no master's name"},
	{
		IsUnknownCommand,
		"the server, or a proxy before it, lacks this command: use a newer server or another mode, and redis+sentinel:// if it is a sentinel"},
	{IsOOM, "the server has no memory left for writes: raise maxmemory or free some"},
	{IsBusy, "a script of another client keeps the server busy: wait, or end it by SCRIPT KILL"},
	{holdsNoNumber, "another program wrote to the counter of fencing numbers (the key gsl:fence:NAMESPACE:{TAG}): SET it to the greatest number ever drawn, or DEL it, and numbers continue from the server's clock"},
	{IsNoScript, "the server forgot the script while it was being sent: try again"},
	{coded("MISCONF "), "the server cannot save to disk and refuses writes: see its log"},
	{
		coded("NOREPLICAS "),
		"too few replicas are connected for the server to take writes: see min-replicas-to-write"},
	{coded("MASTERDOWN "), "the replica lost its primary: point the address at the primary"},
	{coded("DENIED "), "the server is in protected mode: give it a password or connect from its own host"},
	{coded("ERR max number of clients"),
		"the server takes no more connections: raise maxclients or close some"},
	{isA(ErrClosed), "the lock client was closed during this call"},
	{isA(context.Canceled), ""},
	{coded("ERR DB index is out of range", "ERR invalid DB index"),
		"the server has no such database: use a number below its setting databases (16 by default)"},
	{unknownAuthority, "no authority that this machine knows signed the server's certificate: pass that authority's certificate by --cacert"},
	{wrongName, "the server's certificate is for another name: use a name that it contains"},
	{
		socketFails(fs.ErrNotExist),
		"there is no such socket: check the path and unixsocket in the server's configuration"},
	{
		socketFails(fs.ErrPermission),
		"this user may not open the socket: see unixsocketperm in the server's configuration"},
	{refusedConnection, "nothing listens there: check the address and that the server runs"},
	{noSuchHost, "the name does not resolve: check the address"},
	{foreignClock, "a proxy answers in the server's place (Envoy does): connect to the server itself"},
	{isHung, "the network or the server does not answer new connections: check the address and firewalls, and set DialContext of the redis.Pool, which can be cancelled"},
	{isA(ErrTimeout), "the server or the network is silent: check the address, firewalls, the server's load, and that it speaks TLS if the address says so"},
	{notRedis, "the server there does not speak the protocol of Redis: check the address and the port"},
	{isA(ErrLost), "the server or the network closed the connection: see the server's log, and whether it wants TLS (rediss://)"},
}

// holdsNoNumber reports that the counter of fencing numbers is unreadable, in
// the words of the scripts that draw one.
func holdsNoNumber(err error) bool {
	text, _ := serverText(err)
	return strings.Contains(text, " holds no fencing number")
}

func coded(codes ...string) func(error) bool {
	return func(err error) bool { return says(err, codes...) }
}

func isA(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func refusedConnection(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && strings.Contains(op.Error(), "refused")
}

// socketFails reports whether connecting to a unix socket failed with target.
// Writing a file fails with the same errors, but is no dial.
func socketFails(target error) func(error) bool {
	return func(err error) bool {
		var op *net.OpError
		return errors.As(err, &op) && op.Op == "dial" && op.Net == "unix" && errors.Is(op.Err, target)
	}
}

// noPermKey reports IsNoPerm for a key. Servers do not name the key.
func noPermKey(err error) bool {
	text, _ := serverText(err)
	return IsNoPerm(err) && (strings.Contains(text, "the keys") || strings.Contains(text, "access a key"))
}

func unknownAuthority(err error) bool {
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}

func wrongName(err error) bool {
	var name x509.HostnameError
	return errors.As(err, &name)
}

// notRedis reports a reply in another protocol, by the client library's words:
// it exports no type for that error.
func notRedis(err error) bool {
	return strings.Contains(err.Error(), "redigo: unexpected response line") ||
		strings.Contains(err.Error(), "redigo: long response line")
}

func isHung(err error) bool {
	var hung *hungError
	return errors.As(err, &hung)
}

func noSuchHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// Explain returns one clause that says what to do about an error of this
// package, or "" if its own text says enough.
func Explain(err error) string {
	var advised interface{ Advised() bool }
	if err == nil || errors.As(err, &advised) { // see package redisconn
		return ""
	}
	for _, a := range advice {
		if a.fits(err) {
			return a.say
		}
	}
	return ""
}
