package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// database is a Postgres server that lives as long as its script, which waits for the end of
// its input.
type database struct {
	address string
	script  *osexec.Cmd
	hold    io.Closer
}

// startDatabase starts one. The error says why there is none.
func startDatabase(ctx context.Context, module string) (*database, error) {
	c := osexec.CommandContext(ctx, filepath.Join(module, "scripts", "postgres.sh"), "sh", "-c", `echo "$TIPSTAFF_POSTGRES"; exec cat`)
	c.Cancel = func() error { return nil } // the input ends, and then the script cleans up
	c.Stderr = &strings.Builder{}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	d := &database{script: c, hold: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(errors.New(lastLine(fmt.Sprint(c.Stderr))), in.Close(), c.Wait())
	}
	d.address = strings.TrimSpace(line)
	return d, nil
}

func (d *database) stop() error { return errors.Join(d.hold.Close(), d.script.Wait()) }

// create makes a database of its own for a figure.
func (d *database) create(ctx context.Context, name string) (address string, err error) {
	if _, err := query(ctx, d.address, fmt.Sprintf("CREATE DATABASE %q", name)); err != nil {
		return "", err
	}
	u, err := url.Parse(d.address)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// query has psql run SQL, and returns what it says.
func query(ctx context.Context, address, sql string) (string, error) {
	c := osexec.CommandContext(ctx, "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, address)
	c.Stderr = &strings.Builder{}
	out, err := c.Output()
	return strings.TrimSpace(string(out)), explain(c, err)
}

// number is what a query says that says one.
func number(ctx context.Context, address, sql string) (float64, error) {
	said, err := query(ctx, address, sql)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(said, 64)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
