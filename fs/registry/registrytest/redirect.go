package registrytest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

const dataPath = "/data/"

// Redirect lets blobs be served by another host, at URLs that are signed and
// good for a while.
type Redirect struct {
	Addr     string        // to listen on; default 127.0.0.1:0
	Listener net.Listener  // instead of Addr
	Name     string        // host:port in the URLs; default: the listener's address
	TTL      time.Duration // of a URL; default 1 h
	Hops     int           // redirects on the way; default 1
	Marker   string        // put into the query of each URL
	TLS      TLS
}

// Data is what is known of the host that blobs are redirected to.
type Data struct {
	record
	reg    *Registry // answers for it: faults, blobs
	name   string
	scheme string
}

// Host returns host:port of the data host.
func (d *Data) Host() string { return d.name }

type dataHost struct {
	*Data
	to    Redirect
	close func()
}

func startData(r *Registry, to Redirect) (*dataHost, error) {
	lis, err := Options{Addr: to.Addr, Listener: to.Listener}.listen()
	if err != nil {
		return nil, err
	}
	if to.Name == "" {
		to.Name = lis.Addr().String()
	}
	if to.TTL == 0 {
		to.TTL = time.Hour
	}
	to.Hops = max(1, to.Hops)
	d := &dataHost{Data: &Data{reg: r, name: to.Name}, to: to}
	conns, scheme, _, err := split(lis, to.TLS, to.Name)
	if err != nil {
		return nil, err
	}
	d.scheme = scheme
	d.close = sync.OnceFunc(conns.serve(http.HandlerFunc(d.serve)))
	return d, nil
}

func (d *dataHost) redirect(w http.ResponseWriter, blob digest.Digest) {
	w.Header().Set("Location", d.sign(blob, d.to.Hops, time.Now().Add(d.to.TTL)))
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// sign makes the URL of a blob that leads there in so many hops.
func (d *Data) sign(blob digest.Digest, hops int, until time.Time) string {
	at := strconv.FormatInt(until.UnixMilli(), 10)
	return fmt.Sprintf("%s://%s%s%s?hops=%d&until=%s&sig=%s", d.scheme, d.name, dataPath, blob, hops, at, mac(blob, hops, at)) + d.marker()
}

func (d *Data) marker() string {
	if m := d.reg.data.to.Marker; m != "" {
		return "&marker=" + m
	}
	return ""
}

// mac signs what a URL says, with a key that is no secret: tests only.
func mac(blob digest.Digest, hops int, until string) string {
	h := hmac.New(sha256.New, []byte("registrytest"))
	fmt.Fprintf(h, "%s %d %s", blob, hops, until)
	return hex.EncodeToString(h.Sum(nil))
}

func (d *dataHost) serve(w http.ResponseWriter, req *http.Request) {
	d.logged(w, req, func(w http.ResponseWriter) {
		f := d.reg.fault(req)
		if !d.reg.before(w, req, f) {
			return
		}
		q := req.URL.Query()
		blob := digest.Digest(strings.TrimPrefix(req.URL.Path, dataPath))
		hops, _ := strconv.Atoi(q.Get("hops"))
		until, _ := strconv.ParseInt(q.Get("until"), 10, 64)
		switch {
		case q.Get("sig") != mac(blob, hops, q.Get("until")), !time.Now().Before(time.UnixMilli(until)):
			fail(w, http.StatusForbidden, "EXPIRED", "request has expired")
		case hops > 1:
			w.Header().Set("Location", d.sign(blob, hops-1, time.UnixMilli(until)))
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			d.reg.sendBlob(w, req, blob, f)
		}
	})
}
