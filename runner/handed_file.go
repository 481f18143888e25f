package runner

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/workspace"
)

// maxFile is far above what a program may have.
const maxFile = 64 << 20

// opened is a request with the document that it hands over, read.
type opened struct {
	tipstaff.StartRequest
	handed handed
	dir    string // where the files lie that the document names
}

// openRequest reads the document that a request names by its file. In a folder that the
// operator serves it is the operator's; a turn is words alone, whoever wrote it.
func (r *Runner) openRequest(req tipstaff.StartRequest) (o opened, err error) {
	o = opened{StartRequest: req, dir: filepath.Dir(req.Name)}
	if req.File != "" {
		if len(req.Program) > 0 {
			return o, tipstaff.Errorf(tipstaff.InvalidArgument, "give a program or the file that holds it, not both")
		}
		path, err := r.inside(req.File)
		if err != nil {
			return o, err
		}
		if o.Program, o.handed.served, err = r.readFile(path, req.File, maxFile); err != nil {
			return o, err
		}
		o.Name, o.dir = cmp.Or(req.Name, req.File), filepath.Dir(path)
		if !o.handed.served {
			o.handed.file = req.File
		}
	}
	o.handed.own = len(o.Program) > 0 && !o.handed.served && !plan.IsTurn(o.Program)
	return o, nil
}

// served are the folders whose documents are the operator's.
func (r *Runner) served() []string {
	folders := slices.Clone(r.Pipelines)
	m, err := workspace.Read(r.Workspace)
	if err != nil { // then nothing is started
		return folders
	}
	for _, name := range m.Serving().Programs {
		if !filepath.IsAbs(name) {
			name = filepath.Join(r.Workspace, name)
		}
		folders = append(folders, name)
	}
	return folders
}

// readFile reads a file, given by its path without links and by the name that somebody used.
// served: it lies in a folder of the operator's, and was opened without leaving that.
func (r *Runner) readFile(path, name string, limit int64) (text []byte, served bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, false, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not a file", name)
	case err == nil && info.Size() > limit:
		return nil, false, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is larger than %d MiB", name, limit>>20)
	}
	var f *os.File
	if err == nil {
		var root, rel string
		if root, rel, served = below(path, r.served()); served {
			f, err = os.OpenInRoot(root, rel)
		} else {
			f, err = os.Open(path)
		}
	}
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, limit+1))
	}
	if err != nil {
		return nil, false, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: name + " cannot be read", Err: err}
	}
	return text, served, nil
}

// beside reads a file that a document names. One that is not the operator's makes of the
// operator's document another.
func (r *Runner) beside(o opened, p *prepared, name string) ([]byte, error) {
	path := filepath.Join(o.dir, name)
	if !o.handed.served {
		return readShort(path, pipeline.MaxSize)
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	text, served, err := r.readFile(path, name, pipeline.MaxSize)
	p.handed.own = p.handed.own || !served
	return text, err
}
