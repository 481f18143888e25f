package worker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Versions is what CLIs have said of their version. Some take seconds to say it, so that a file
// which has not changed is asked once. It is safe for concurrent use.
type Versions struct {
	File string // where it is kept between processes; "": nowhere

	mu    sync.Mutex
	known map[string]said // by the path of the CLI; nil: not read yet
}

// said is the answer of a CLI, and the file that gave it.
type said struct {
	File   string `json:"file"` // its size and time
	Answer string `json:"answer"`
}

// maxVersions is how many answers are kept: enough for all CLIs of a machine.
const maxVersions = 100

// stampOf tells a file from what it was before; "": it cannot be looked at.
func stampOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}

// get is what the file at a path has answered; "": it was not asked yet.
func (v *Versions) get(path string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read()
	if s := v.known[path]; s.File != "" && s.File == stampOf(path) {
		return s.Answer
	}
	return ""
}

// put keeps an answer. What cannot be written is asked again.
func (v *Versions) put(path, stamp, answer string) {
	if stamp == "" || stamp != stampOf(path) { // it was replaced meanwhile
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.File != "" {
		v.known = nil // others may have written it
	}
	v.read()
	if len(v.known) >= maxVersions {
		v.known = map[string]said{}
	}
	v.known[path] = said{stamp, answer}
	if v.File == "" {
		return
	}
	text, err := json.Marshal(v.known)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(v.File), 0o700)
	}
	if err == nil {
		_ = replaceFile(v.File, text)
	}
}

// read reads the file. One that is damaged is as good as none.
func (v *Versions) read() {
	if v.known != nil {
		return
	}
	v.known = map[string]said{}
	if text, err := os.ReadFile(v.File); err == nil && json.Unmarshal(text, &v.known) != nil {
		v.known = map[string]said{}
	}
}

// replaceFile writes a file whole or not at all.
func replaceFile(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
