package cli

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"
)

// console is a terminal at which every key is heard at once, also while nobody
// asks for anything: then what is typed waits for the next prompt, and Ctrl-C is
// heard. One goroutine reads; who asks is given lines.
type console struct {
	out       io.Writer
	screen    lineScreen
	history   *lineHistory
	words     []string // that Tab completes
	prompt    string   // of the person's own texts
	interrupt func()   // Ctrl-C, wherever it is pressed
	keys      *keyboard

	mu      sync.Mutex
	own     *lineEditor // what the person types when not asked
	entered []string    // and has entered
	asked   *request    // nil: nobody waits for a line
	ended   error       // of the input
	tail    []byte      // of what was written since the last line feed
}

// request is somebody who waits for a line.
type request struct {
	editor *lineEditor
	prompt string
	answer chan typed // has room for one
	after  int        // pieces up to here were typed before it asked
}

type typed struct {
	text string
	err  error
}

// newConsole hears a terminal that is in raw mode, until its input ends.
func (a *app) newConsole(prompt string, history *lineHistory, words []string) *console {
	c := &console{out: a.err, screen: lineScreen{w: a.err, size: a.env.size}, history: history, words: words, prompt: prompt, interrupt: func() {}, keys: newKeyboard(a.env.Stdin)}
	c.renew()
	io.WriteString(c.out, pasteOn)
	return c
}

// renew begins an empty text of the person's own.
func (c *console) renew() { c.own = newLineEditor(c.history.entries, c.words) }

// Terminals that know it send what is pasted in brackets.
const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
)

// listen hears the keys until the input ends.
func (c *console) listen(r io.Reader) { c.end(c.keys.hear(context.Background(), r, c.press)) }

// end is the end of the input.
func (c *console) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = err
	if c.asked != nil {
		c.answer(typed{err: err})
	}
}

// close takes back what was told to the terminal.
func (c *console) close() { io.WriteString(c.out, pasteOff) }

// press is the keys of the n-th piece.
func (c *console) press(keys []key, n int) {
	for _, k := range keys {
		if c.pressOne(k, n) == interrupted {
			c.interrupt() // without the lock: it may ask and tell
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked != nil {
		c.screen.draw(c.asked.editor, c.asked.prompt)
	}
}

func (c *console) pressOne(k key, n int) pressed {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil || n <= c.asked.after {
		return c.pressAhead(k)
	}
	did := c.asked.editor.press(k)
	switch did {
	case entered:
		c.answer(typed{text: c.asked.editor.String()})
	case leaving:
		c.answer(typed{err: io.EOF})
	case interrupted:
		c.asked.editor.set(nil)
		c.screen.draw(c.asked.editor, c.asked.prompt)
	case cleared:
		io.WriteString(c.out, "\x1b[H\x1b[2J")
		c.screen.above, c.screen.col = nil, 0
	}
	return did
}

// pressAhead is a key while nobody asks.
func (c *console) pressAhead(k key) pressed {
	did := c.own.press(k)
	switch did {
	case entered:
		c.entered = append(c.entered, c.own.String())
		c.renew()
	case interrupted:
		c.own.set(nil)
	case leaving:
		c.ended = io.EOF
	}
	return did
}

// answer gives whoever waits what was entered, which stays on the terminal.
func (c *console) answer(t typed) {
	c.screen.leave(c.asked.editor, c.asked.prompt)
	c.tail = nil
	c.asked.answer <- t
	if c.asked.editor == c.own {
		c.renew()
	}
	c.asked = nil
}

// next waits for the person's next text: one that was entered meanwhile, else
// what is typed at the prompt.
func (c *console) next(ctx context.Context) (text string, err error) {
	c.mu.Lock()
	if len(c.entered) > 0 {
		text, c.entered = c.entered[0], c.entered[1:]
		shown := newLineEditor(nil, nil)
		shown.set([]rune(text))
		c.screen.leave(shown, c.prompt)
	} else {
		c.own.history, c.own.shown = c.history.entries, len(c.history.entries)
		if text, err = c.ask(ctx, &request{editor: c.own, prompt: c.prompt}); err != nil {
			return "", err
		}
		c.mu.Lock()
	}
	lost := c.history.add(text)
	c.mu.Unlock()
	if lost != nil {
		c.say(clean(lost.Error()))
	}
	return text, nil
}

// Line waits for the answer to a question that somebody has written: its last
// line is the prompt. What was typed before is no answer.
func (c *console) Line(ctx context.Context) (string, error) {
	c.mu.Lock()
	return c.ask(ctx, &request{editor: newLineEditor(nil, nil), prompt: clean(string(c.tail)), after: c.keys.count()})
}

// Forget drops what nobody has heard yet; Line takes what is heard after it was called.
func (c *console) Forget() { c.keys.forget() }

// ask waits for what r asks for, or for ctx. It takes over the lock. Where the input has
// ended there is nothing to wait for.
func (c *console) ask(ctx context.Context, r *request) (string, error) {
	r.answer = make(chan typed, 1)
	if c.ended != nil {
		r.answer <- typed{err: c.ended}
	} else {
		c.asked = r
		c.screen.draw(r.editor, r.prompt)
	}
	c.mu.Unlock()
	select {
	case t := <-r.answer:
		return t.text, t.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == r {
		c.screen.leave(r.editor, r.prompt)
		c.asked = nil
	}
	return "", context.Cause(ctx)
}

// Write is for those who ask: it remembers what would be the prompt.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
		c.tail = slices.Clone(p[i+1:])
	} else {
		c.tail = append(c.tail, p...)
	}
	return c.out.Write(p)
}

// say tells the person something, also in the middle of a text.
func (c *console) say(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked != nil {
		c.screen.erase()
		defer func() { c.screen.draw(c.asked.editor, c.asked.prompt) }()
	}
	io.WriteString(c.out, text+"\n")
}

// ahead is what waits for the next prompt: texts that were entered, and one that
// is being typed.
func (c *console) ahead() (entered int, typing string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entered), c.own.String()
}
