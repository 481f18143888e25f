package cli

import (
	"context"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
)

// artifact writes a blob of a run as it is: to a file, or to where the output goes.
func (o *showOptions) artifact(ctx context.Context, svc tipstaff.Service, id tipstaff.ID) error {
	digest := o.digest
	if !strings.HasPrefix(digest, "sha256:") {
		digest = "sha256:" + digest
	}
	data, err := svc.Artifact(ctx, id, digest)
	if err != nil {
		return err
	}
	if o.file != "" {
		return os.WriteFile(o.file, data, 0o600)
	}
	if o.env.StdoutTTY && !plainText(data) {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not text that a terminal can show: %d bytes", digest, len(data)).
			WithHint("write it to a file: -o FILE")
	}
	_, err = o.out.Write(data)
	return err
}

// plainText reports whether a terminal shows data as it is.
func plainText(data []byte) bool {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }
	return utf8.Valid(data) && !strings.ContainsFunc(string(data), control)
}
