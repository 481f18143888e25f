package agent

import (
	"bytes"
	"encoding/json"
	"sync"
)

// Desk is where the loop lays a request and model.call picks it up, so that a
// record names a conversation by its digest alone. One desk serves all turns of a
// run: the requests lie under the paths of their calls. On replay nobody picks
// anything up.
//
// The zero Desk is ready for use; on a nil one nothing stays.
type Desk struct {
	mu     sync.Mutex
	papers map[string]paper
	ids    map[string]string // of tool calls, by path
}

// paper is what a model call needs besides its input.
type paper struct {
	request Request
	step    int
	price   *Price
	blobs   []Blob // that this request is the first to name

	said  *answer         // to it, in this drive; nil: it must be read from its record
	value json.RawMessage // in which it stands there
}

func (d *Desk) put(path string, p paper) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.papers == nil {
		d.papers = map[string]paper{}
	}
	d.papers[path] = p
}

// take reads a request; it stays for the next attempt.
func (d *Desk) take(path string) (paper, bool) {
	if d == nil {
		return paper{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.papers[path]
	return p, ok
}

// kept notes that the blobs of a request are: a further attempt need not keep them
// again.
func (d *Desk) kept(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p, ok := d.papers[path]; ok {
		p.blobs = nil
		d.papers[path] = p
	}
}

// answered lays the answer beside its request: what has just been said need not be
// read back, unless something of it would come back different.
func (d *Desk) answered(path string, said *answer, value json.RawMessage) {
	if !said.survives() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p, ok := d.papers[path]; ok {
		p.said, p.value = said, value
		d.papers[path] = p
	}
}

// said is the answer that stands in a record as value; nil: nobody knows here.
func (d *Desk) said(path string, value json.RawMessage) *answer {
	if p, ok := d.take(path); ok && p.said != nil && bytes.Equal(p.value, value) {
		return p.said
	}
	return nil
}

func (d *Desk) clear(path string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.papers, path)
}

// putCall tells whoever makes the call at a path by which id its model knows it.
func (d *Desk) putCall(path, id string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ids == nil {
		d.ids = map[string]string{}
	}
	d.ids[path] = id
}

// callID is what putCall told; "": nothing.
func (d *Desk) callID(path string) string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ids[path]
}

func (d *Desk) clearCall(path string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ids, path)
}
