package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipstaff/tipstaff/pb"
)

// attacker speaks HTTP/2 by hand, so that it can begin messages and not end them.
type attacker struct {
	net.Conn
	frames *http2.Framer
	hpack  *hpack.Encoder
	block  bytes.Buffer

	mu      sync.Mutex
	moved   *sync.Cond
	windows map[uint32]int64 // 0: of the connection
	initial int64
	gone    bool
}

func newAttacker(t *testing.T, address string) *attacker {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	a := &attacker{Conn: c, frames: http2.NewFramer(c, c), windows: map[uint32]int64{0: 65535}, initial: 65535}
	a.hpack, a.moved = hpack.NewEncoder(&a.block), sync.NewCond(&a.mu)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := a.frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go a.listen()
	return a
}

func (a *attacker) listen() {
	for {
		f, err := a.frames.ReadFrame()
		a.mu.Lock()
		switch f := f.(type) {
		case *http2.WindowUpdateFrame:
			a.windows[f.StreamID] += int64(f.Increment)
		case *http2.SettingsFrame:
			if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
				a.initial = int64(v)
			}
		case *http2.RSTStreamFrame:
			a.windows[f.StreamID] = -1 << 60
		}
		a.gone = err != nil
		a.moved.Broadcast()
		a.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// begin sends the headers of a call, and of its message as much as the server takes
// within a while.
func (a *attacker) begin(stream uint32, method string, size int) {
	a.block.Reset()
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = a.hpack.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	a.mu.Lock()
	a.windows[stream] = a.initial
	a.mu.Unlock()
	if a.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: a.block.Bytes(), EndHeaders: true}) != nil {
		return
	}
	prefix := make([]byte, 5)
	binary.BigEndian.PutUint32(prefix[1:], uint32(size))
	if a.frames.WriteData(stream, false, prefix) != nil {
		return
	}
	deadline := time.Now().Add(300 * time.Millisecond)
	for sent := 0; sent < size-1 && time.Now().Before(deadline); {
		a.mu.Lock()
		n := min(int64(size-1-sent), a.windows[0], a.windows[stream], 16<<10)
		if n > 0 {
			a.windows[0] -= n
			a.windows[stream] -= n
		}
		gone := a.gone || a.windows[stream] < -1<<50
		a.mu.Unlock()
		switch {
		case gone:
			return
		case n <= 0:
			time.Sleep(time.Millisecond)
		default:
			if a.frames.WriteData(stream, false, make([]byte, n)) != nil {
				return
			}
			sent += int(n)
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Messages that are begun and not ended by somebody without a token take up no room:
// neither where a token is needed, nor where anybody may call.
func TestStrangersHoldNoMemory(t *testing.T) {
	for name, method := range map[string]string{"a call": pb.CoreService_CreateEnvelope_FullMethodName, "a stream": pb.CoreService_ServeAgents_FullMethodName,
		"health": healthpb.Health_Check_FullMethodName, "reflection": "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "nothing": "/no.Such/Method"} {
		t.Run(name, func(t *testing.T) {
			_, address := listening(t, &stub{})
			before := heap()
			for range 5 { // connections
				a := newAttacker(t, address)
				for i := range 5 {
					a.begin(uint32(2*i+1), method, maxPayload-1)
				}
			}
			if held := heap() - before; held > 4<<20 {
				t.Errorf("%d unfinished messages hold %d bytes", 25, held)
			} else {
				t.Logf("%d unfinished messages hold %d bytes", 25, held)
			}
		})
	}
}

// Somebody who watches over the server may ask for ever on one connection.
func TestAStrangerMayAskAgainAndAgain(t *testing.T) {
	_, address := listening(t, &stub{})
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	health := healthpb.NewHealthClient(conn)
	watch, err := health.Watch(context.Background(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if _, err := health.Check(context.Background(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { _, err := watch.Recv(); ended <- err }()
	select {
	case err := <-ended:
		t.Errorf("the watch ended: %v", err)
	default:
	}
}

// Whoever forgets the token is told so, however much they have to say.
func TestAForgottenTokenIsTold(t *testing.T) {
	_, c := newServer(t, &stub{})
	for range 50 {
		_, err := c.CreateEnvelope(context.Background(), &pb.CreateEnvelopeRequest{RawInput: strings.Repeat("x", 1<<20)})
		if status.Code(err) != codes.Unauthenticated {
			t.Fatal(err)
		}
	}
}

func TestHeadersAreBounded(t *testing.T) {
	_, c := newServer(t, &stub{})
	err := state(c, metadata.AppendToOutgoingContext(withToken("Bearer "+secret), "x-long", strings.Repeat("x", maxHeaders)))
	if status.Code(err) == codes.OK || status.Code(err) == codes.NotFound {
		t.Errorf("%d bytes of headers: %v", maxHeaders, err)
	}
}

// With all places taken by strangers somebody with a token still comes in.
func TestStrangersMakeRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &limitedListener{Listener: l}
	accept := func() *conn {
		dialled, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dialled.Close() })
		c, err := d.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*conn)
	}
	friend, first := accept(), accept()
	friend.known.Store(true)
	for range maxConns - 2 {
		d.conns = append(d.conns, &conn{})
	}
	accept()
	if _, err := first.Write([]byte("x")); err == nil || len(d.conns) != maxConns {
		t.Errorf("the oldest stranger is still there, of %d: %v", len(d.conns), err)
	}
	if _, err := friend.Write([]byte("x")); err != nil {
		t.Errorf("who has shown a token was sent away: %v", err)
	}
	for _, c := range d.conns {
		c.known.Store(true)
	}
	if d.admit(&conn{}) {
		t.Error("one more was let in where all are known")
	}
	friend.Close()
	if len(d.conns) != maxConns-1 {
		t.Errorf("%d are there after one has left", len(d.conns))
	}
}
