// SPDX-License-Identifier: Apache-2.0

// Package redisconn reads the address of a Redis server in the form that the
// command accepts, and connects to that server.
//
// Most programs need the function Open of package modern or legacy, which call
// [Open]:
//
//	client, err := modern.Open(ctx, "rediss://app@cache.internal/2", modern.Options{
//		Redis: redisconn.Options{PasswordFile: "/run/secrets/redis", CACert: "/etc/redis/ca.pem"},
//	})
//
// # Passwords
//
// This package never shows a password. A printed Address does not have it. Nor
// does an error of parsing, dialing or authenticating, even if the server
// repeats what it was sent. Two things are up to the caller: the string that
// was given to Parse, and the list of processes. Every user of the machine can
// read there a password that was written on the command line.
//
// # Addresses
//
//	redis://[user[:password]@]host[:port][/db]
//	rediss://…                                 the same over TLS
//	unix://[user[:password]@]/path[?db=N&user=NAME&password=WORD]
//	redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/master[/db]
//	rediss+sentinel://…                        the same, the sentinels too, over TLS
//	redis+cluster://[user[:password]@]host[:port][,host[:port]…]
//	rediss+cluster://…                         the same over TLS
//
// The user and the password are those of the Redis server, percent-encoded. A
// password that the address lacks comes from [Options], and so does what the
// sentinels want.
package redisconn

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Default is the address that is used when none is given.
const Default = "redis://127.0.0.1:6379"

// Env is the environment variable for the address when no flag gives it.
const Env = "GETSETLOCK_REDIS"

// Environment variables for what an address does not say; see [OptionsFromEnv].
const (
	EnvPassword             = "GETSETLOCK_PASSWORD"
	EnvPasswordFile         = "GETSETLOCK_PASSWORD_FILE"
	EnvSentinelUser         = "GETSETLOCK_SENTINEL_USER"
	EnvSentinelPassword     = "GETSETLOCK_SENTINEL_PASSWORD"
	EnvSentinelPasswordFile = "GETSETLOCK_SENTINEL_PASSWORD_FILE"
	EnvCACert               = "GETSETLOCK_CACERT"
	EnvCert                 = "GETSETLOCK_CERT"
	EnvKeyFile              = "GETSETLOCK_KEY_FILE"
)

// Pick returns the address to use: the flag, else the one in the environment,
// else [Default].
func Pick(flag string, getenv func(string) string) string {
	if flag != "" {
		return flag
	}
	if s := getenv(Env); s != "" {
		return s
	}
	return Default
}

// Address is the location of a server, and the user that connects to it. The
// zero value is no address.
type Address struct {
	kind     kind
	hosts    []string // host:port of the server, or of the sentinels
	path     string   // path of the unix socket
	master   string   // name of the master at the sentinels
	db       int
	user     string
	password string
	asked    string // password as written in the address, perhaps percent-encoded
}

type kind string

const (
	plain    kind = "redis"
	secure   kind = "rediss"
	socket   kind = "unix"
	sentinel kind = "redis+sentinel"

	secureSentinel kind = "rediss+sentinel"

	ofNodes     kind = "redis+cluster"
	secureNodes kind = "rediss+cluster"
)

var kinds = []kind{plain, secure, socket, sentinel, secureSentinel, ofNodes, secureNodes}

const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

// Parse reads an address. Its errors name the part that is wrong and repeat
// nothing of it: in a malformed address any part may be the password.
func Parse(raw string) (Address, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	a := Address{kind: kind(strings.ToLower(scheme))}
	switch strings.TrimSuffix(string(a.kind), "s") {
	case "etcd", "zookeeper":
		return Address{}, bad("it is an address of another store: the command takes it by --target, a program by package etcd or zookeeper")
	}
	if !ok || !slices.Contains(kinds, a.kind) {
		return Address{},
			bad("it must begin with redis:// (as redis://127.0.0.1:6379 does), rediss://, unix://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or rediss+cluster://")
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	hosts, err := a.parseUser(authority)
	if err != nil {
		return Address{}, err
	}
	path, query, _ := strings.Cut(tail, "?")
	switch {
	case a.kind == socket:
		err = a.parseSocket(hosts, path, query)
	case strings.ContainsAny(tail, "@#"):
		// In "redis://:pass/word@host" the text after the slash looks like a
		// database.
		err = bad("there is an @ or # after the host: a password that contains / ? # @ or %% must be percent-encoded (%%2F %%3F %%23 %%40 %%25)")
	case query != "" || strings.Contains(tail, "?"):
		err = bad("it takes no ?parameters")
	case a.viaSentinels():
		err = a.parseSentinels(hosts, path)
	case a.ofCluster():
		err = a.parseNodes(hosts, path)
	default:
		err = a.parseServer(hosts, path)
	}
	if err != nil {
		return Address{}, err
	}
	return a, nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("the Redis address cannot be used: "+format, args...)
}

var errEscape = bad("a %% in its user or password is not followed by two hexadecimal digits: write %%25 for the character itself")

// parseUser cuts user and password off the authority and returns the rest.
func (a *Address) parseUser(authority string) (hosts string, err error) {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return authority, nil
	}
	user, password, _ := strings.Cut(authority[:at], ":")
	return authority[at+1:], a.setUser(user, password)
}

func (a *Address) setUser(user, password string) error {
	var err error
	if a.user, err = url.PathUnescape(user); err != nil {
		return errEscape
	}
	if a.password, err = url.PathUnescape(password); err != nil {
		return errEscape
	}
	a.asked = password
	return nil
}

// setHosts reads hosts that are separated by commas.
func (a *Address) setHosts(hosts, port string) error {
	for _, host := range strings.Split(hosts, ",") {
		address, err := hostPort(host, port)
		if err != nil {
			return err
		}
		a.hosts = append(a.hosts, address)
	}
	return nil
}

func (a *Address) parseServer(host, path string) error {
	if strings.Contains(host, ",") {
		return bad("it names several hosts, which only redis+sentinel://, redis+cluster:// and the same with rediss do")
	}
	if err := a.setHosts(host, redisPort); err != nil {
		return err
	}
	return a.setDB(strings.Trim(path, "/"))
}

func (a *Address) parseNodes(hosts, path string) error {
	if err := a.setHosts(hosts, redisPort); err != nil {
		return err
	}
	if strings.Trim(path, "/") != "" {
		return bad("a cluster has no numbered databases: leave out what follows the hosts")
	}
	return nil
}

func (a *Address) parseSentinels(hosts, path string) error {
	if err := a.setHosts(hosts, sentinelPort); err != nil {
		return err
	}
	name, db, _ := strings.Cut(strings.Trim(path, "/"), "/")
	master, err := url.PathUnescape(name)
	if err != nil || master == "" {
		return bad(
			"the name by which the sentinels know the master is missing: redis+sentinel://host,host/master")
	}
	a.master = master
	return a.setDB(db)
}

func (a *Address) parseSocket(host, path, query string) error {
	if host != "" || !strings.HasPrefix(path, "/") {
		return bad("a socket is written with three slashes: unix:///run/redis.sock")
	}
	var err error
	if a.path, err = url.PathUnescape(path); err != nil || strings.ContainsAny(path, "#") {
		return bad("the path of its socket is not percent-encoded correctly")
	}
	var user, password string
	for _, pair := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "":
		case "db":
			err = a.setDB(value)
		case "user":
			user = value
		case "password":
			password = value
		default:
			err = bad("of ?parameters it takes only db, user and password")
		}
		if err != nil {
			return err
		}
	}
	if user == "" && password == "" {
		return nil
	}
	if a.password != "" {
		return bad("it has a user or password in two places")
	}
	return a.setUser(user, password)
}

// TLS reports whether connections to the server are encrypted.
func (a Address) TLS() bool { return strings.HasPrefix(string(a.kind), string(secure)) }

func (a Address) ofCluster() bool { return a.kind == ofNodes || a.kind == secureNodes }

func (a Address) viaSentinels() bool { return a.kind == sentinel || a.kind == secureSentinel }

// Database is the number of the database that the address selects.
func (a Address) Database() int { return a.db }

func (a *Address) setDB(text string) error {
	if text == "" {
		return nil
	}
	db, err := strconv.Atoi(text)
	if err != nil || db < 0 {
		return bad("the text after the host is not the number of a database")
	}
	a.db = db
	return nil
}

// hostPort adds the default port to a host without one. "[::1]:6379" and
// "[::1]" are IPv6.
func hostPort(s, port string) (string, error) {
	host := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i+1:]
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	} else if strings.Contains(host, ":") {
		return "", bad("its host has a colon: an IPv6 address is written in brackets")
	}
	if host == "" {
		return "", bad("it names no host")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "",
			bad("the text after the host's colon is not a port; if it is part of a password, percent-encode that")
	}
	return net.JoinHostPort(host, port), nil
}

// Redacted is the address without its password, for people. If the address has
// no password, the result can be parsed again.
func (a Address) Redacted() string {
	who := ""
	if a.password != "" {
		who = url.PathEscape(a.user) + ":***@"
	} else if a.user != "" {
		who = "***@" // perhaps a password, by mistake
	}
	s := string(a.kind) + "://" + who
	switch a.kind {
	case socket:
		s += (&url.URL{Path: a.path}).EscapedPath()
		if a.db != 0 {
			s += "?db=" + strconv.Itoa(a.db)
		}
		return s
	case sentinel, secureSentinel:
		s += strings.Join(a.hosts, ",") + "/" + url.PathEscape(a.master)
	default:
		s += strings.Join(a.hosts, ",")
	}
	if a.db != 0 {
		s += "/" + strconv.Itoa(a.db)
	}
	return s
}

// String is Redacted, so that no format verb prints more.
func (a Address) String() string { return a.Redacted() }

// GoString is Redacted too: %#v would print the fields.
func (a Address) GoString() string { return "redisconn.Address(" + a.Redacted() + ")" }

// Format keeps verbs such as %d and %x from printing the fields.
func (a Address) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(a.Redacted())) }

// MarshalText is Redacted for encoders, such as those of package log/slog.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.Redacted()), nil }

var errNoAddress = errors.New("redisconn: the zero Address names no server")
