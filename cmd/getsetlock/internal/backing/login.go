// SPDX-License-Identifier: Apache-2.0

package backing

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Check refuses options that contradict the address or each other, and files
// that cannot be read now.
func (o Options) Check(a Address) error {
	if _, err := o.Login(a); err != nil {
		return err
	}
	_, err := o.TLS(a)
	return err
}

// Login returns the password of the address's user. It reads the file of
// PasswordFile anew.
func (o Options) Login(a Address) (password string, err error) {
	given := 0
	for _, one := range []string{a.password, o.Password, o.PasswordFile} {
		if one != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return "", errors.New("the password is given in two ways: use one of the address, $GETSETLOCK_PASSWORD and a file (--password-file, $GETSETLOCK_PASSWORD_FILE)")
	case a.User == "" && given > 0:
		return "", fmt.Errorf("a password needs a user: write %s://user@host:port", a.Scheme)
	case a.User != "" && given == 0:
		return "", errors.New("the address has a user and no password: give a file (--password-file, $GETSETLOCK_PASSWORD_FILE) or $GETSETLOCK_PASSWORD")
	case o.PasswordFile == "":
		return a.password + o.Password, nil // one of them is empty
	}
	text, err := os.ReadFile(o.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	password = strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("the password file %s is empty", o.PasswordFile)
	}
	return password, nil
}

// TLS returns the TLS configuration, nil where the address asks for none. The
// client's certificate is read anew for each connection.
func (o Options) TLS(a Address) (*tls.Config, error) {
	switch {
	case !a.TLS && o.CACert != "":
		return nil, fmt.Errorf("--cacert is for TLS: write the address as %s://", a.Secure())
	case !a.TLS && (o.Cert != "" || o.Key != ""):
		return nil, fmt.Errorf("--cert and --key are for TLS: write the address as %s://", a.Secure())
	case !a.TLS:
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if err := o.trust(config); err != nil {
		return nil, err
	}
	return config, o.present(config)
}

// trust sets the authorities that sign servers' certificates.
func (o Options) trust(config *tls.Config) error {
	if o.CACert == "" {
		return nil
	}
	pem, err := os.ReadFile(o.CACert)
	if err != nil {
		return fmt.Errorf("reading the certificates of --cacert or $GETSETLOCK_CACERT: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s (--cacert, $GETSETLOCK_CACERT) holds no PEM certificate", o.CACert)
	}
	return nil
}

// present sets this client's certificate.
func (o Options) present(config *tls.Config) error {
	switch {
	case o.Cert == "" && o.Key == "":
		return nil
	case o.Cert == "" || o.Key == "":
		return errors.New("a client certificate needs its key, and a key its certificate: give both (--cert and --key, $GETSETLOCK_CERT and $GETSETLOCK_KEY_FILE)")
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate %s with the key %s: %w", o.Cert, o.Key, err)
		}
		return &pair, nil
	}
	_, err := config.GetClientCertificate(nil)
	return err
}
