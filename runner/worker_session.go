package runner

import (
	"context"

	"github.com/tipstaff/tipstaff"
)

// Sessions are those of the runner's workspace.
func (r *Runner) Sessions() tipstaff.Sessions { return sessions{r} }

type sessions struct{ *Runner }

// Chats implements [tipstaff.Sessions].
func (s sessions) Chats(ctx context.Context, req tipstaff.ChatsRequest) (tipstaff.ChatPage, error) {
	found, err := s.List(ctx, tipstaff.ListRequest{Heads: true, Limit: req.Limit, Before: req.Before})
	page := tipstaff.ChatPage{Chats: []tipstaff.Chat{}, Next: found.Next}
	for i := range found.Runs {
		page.Chats = append(page.Chats, chatOf(ctx, found.Runs[i:i+1]))
	}
	return page, err
}

// Chat implements [tipstaff.Sessions].
func (s sessions) Chat(ctx context.Context, session string, before tipstaff.ID, turns int) (tipstaff.Chat, error) {
	if err := may(ctx, basic(tipstaff.ScopeRead)); err != nil {
		return tipstaff.Chat{}, err
	}
	if session == "" {
		return tipstaff.Chat{}, tipstaff.Errorf(tipstaff.InvalidArgument, "no session was named")
	}
	found, err := s.List(ctx, tipstaff.ListRequest{Session: session, Limit: turns, Before: before})
	if err != nil {
		return tipstaff.Chat{}, err
	}
	if len(found.Runs) > 0 {
		chat := chatOf(ctx, found.Runs)
		chat.Earlier = found.Next
		return chat, nil
	}
	if err := s.ownSession(ctx, session); err != nil {
		return tipstaff.Chat{}, explain(err, tipstaff.ID{})
	}
	return tipstaff.Chat{}, tipstaff.Errorf(tipstaff.SessionUnknown, "there is no session %s", tipstaff.Quote(session, 40))
}

// chatOf is the conversation of some turns, newest first.
func chatOf(ctx context.Context, turns []tipstaff.Run) tipstaff.Chat {
	last := turns[0]
	return tipstaff.Chat{Session: last.Turn.Session, Opening: last.Turn.Opening, Turns: turns, Own: last.User == userOf(ctx)}
}

// Agents implements [tipstaff.Sessions].
func (s sessions) Agents(ctx context.Context) ([]tipstaff.AgentInfo, error) {
	if err := may(ctx, basic(tipstaff.ScopeRead)); err != nil {
		return nil, err
	}
	m, err := s.manifest()
	if err == nil && m == nil && s.Implicit != nil {
		m, err = s.implicit()
	}
	if err != nil {
		return nil, explain(err, tipstaff.ID{})
	}
	all := []tipstaff.AgentInfo{}
	for _, name := range m.AgentNames() {
		if a, ok := m.Agent(name); ok && a.Model != "" {
			all = append(all, tipstaff.AgentInfo{Name: name, Model: a.Model})
		}
	}
	return all, nil
}

// WorkerSessions implements [tipstaff.Sessions]. Whoever sees the runs of all still has
// only their own conversations.
func (s sessions) WorkerSessions(ctx context.Context, q tipstaff.SessionQuery) ([]tipstaff.WorkerSession, error) {
	if err := may(ctx, basic(tipstaff.ScopeRead)); err != nil {
		return nil, err
	}
	list, err := s.Workers.WorkerSessions(ctx, q, userOf(ctx))
	return list, explain(err, tipstaff.ID{})
}
