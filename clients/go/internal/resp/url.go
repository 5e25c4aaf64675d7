package resp

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Settings of connections.
type Settings struct {
	User, Password string
	// TLS is nil for connections without TLS.
	TLS *tls.Config
	// Timeout of one attempt to connect.
	Timeout time.Duration
}

type mode int

const (
	single mode = iota
	sentinel
	cluster
)

// Target is where a URL leads.
type Target struct {
	mode     mode
	hosts    []string
	service  string
	database int
	settings Settings
}

const (
	serverPort   = "6379"
	sentinelPort = "26379"
)

var schemes = map[string]struct {
	mode mode
	tls  bool
}{
	"redis": {single, false}, "redis+sentinel": {sentinel, false}, "redis+cluster": {cluster, false},
	"rediss": {single, true}, "rediss+sentinel": {sentinel, true}, "rediss+cluster": {cluster, true},
}

// ParseURL reads a URL such as redis+sentinel://user:password@a:26379,b/service/0. The TLS settings apply if the scheme
// asks for TLS.
func ParseURL(text string, tlsConfig *tls.Config, timeout time.Duration) (*Target, error) {
	name, rest, found := strings.Cut(text, "://")
	scheme, known := schemes[name]
	if !found || !known {
		return nil, errors.New("has an unknown scheme; use redis, rediss, http or https, or add +sentinel or +cluster")
	}
	target := &Target{mode: scheme.mode, settings: Settings{Timeout: timeout}}
	if scheme.tls {
		if target.settings.TLS = tlsConfig; tlsConfig == nil {
			target.settings.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	at := strings.LastIndexByte(rest, '@')
	if err := target.readAccount(rest[:at+1]); err != nil {
		return nil, err
	}
	hosts, path, _ := strings.Cut(rest[at+1:], "/")
	if err := target.readHosts(hosts); err != nil {
		return nil, err
	}
	return target, target.readPath(path)
}

func (t *Target) readAccount(text string) error {
	if text == "" {
		return nil
	}
	user, password, found := strings.Cut(strings.TrimSuffix(text, "@"), ":")
	if !found {
		return errors.New("has a user without a password")
	}
	var err error
	if t.settings.User, err = url.PathUnescape(user); err == nil {
		t.settings.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return errors.New("has a badly percent-encoded user or password")
	}
	return nil
}

func (t *Target) readHosts(text string) error {
	port := serverPort
	if t.mode == sentinel {
		port = sentinelPort
	}
	for _, host := range strings.Split(text, ",") {
		addr := host
		if _, _, err := net.SplitHostPort(host); err != nil {
			addr = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		if name, number, err := net.SplitHostPort(addr); err != nil || name == "" || !isPort(number) {
			return errors.New("has an invalid host or port")
		}
		t.hosts = append(t.hosts, addr)
	}
	if t.mode == single && len(t.hosts) > 1 {
		return errors.New("has several hosts; add +sentinel or +cluster to the scheme")
	}
	return nil
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

func (t *Target) readPath(path string) error {
	if strings.ContainsAny(path, "?#") {
		return errors.New("has a query or a fragment, which is not supported")
	}
	database := path
	if t.mode == sentinel {
		if t.service, database, _ = strings.Cut(path, "/"); t.service == "" {
			return errors.New("lacks the name of the service, as in redis+sentinel://host/service")
		}
	}
	if database == "" {
		return nil
	}
	number, err := strconv.ParseUint(database, 10, 16)
	if err != nil {
		return errors.New("has a database that is not a number")
	}
	if t.mode == cluster && number != 0 {
		return errors.New("has a database; a Cluster has only database 0")
	}
	t.database = int(number)
	return nil
}
