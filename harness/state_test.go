package harness

import (
	"errors"
	"testing"
)

var (
	allSessionStates = []SessionState{SessionStateActive, SessionStateDetached, SessionStateStopped, SessionStateDestroyed}
	allTurnStates    = []TurnState{TurnStateIdle, TurnStateRunning, TurnStateAwaitingApproval, TurnStateAwaitingResult, TurnStateSuspended}
)

func TestSessionEndsOnce(t *testing.T) {
	want := map[sessionMove]SessionState{moveDetach: SessionStateDetached, moveStop: SessionStateStopped, moveDestroy: SessionStateDestroyed}
	for _, s := range allSessionStates {
		for move, to := range want {
			got, ok := sessionMoves[s][move]
			if ok != (s == SessionStateActive) || ok && got != to {
				t.Errorf("%s in %s: %q, %v", move, s, got, ok)
			}
		}
	}
}

func TestTurnMovesOverAllPairs(t *testing.T) {
	want := map[turnMove]TurnState{
		moveFinish: TurnStateIdle, movePauseApproval: TurnStateAwaitingApproval, movePauseResult: TurnStateAwaitingResult, moveSuspend: TurnStateSuspended,
	}
	for _, s := range allTurnStates {
		got, ok := turnMoves[s][moveBegin]
		if ok != (s != TurnStateRunning) || ok && got != TurnStateRunning {
			t.Errorf("begin in %s: %q, %v", s, got, ok)
		}
		for move, to := range want {
			got, ok := turnMoves[s][move]
			if ok != (s == TurnStateRunning) || ok && got != to {
				t.Errorf("%s in %s: %q, %v", move, s, got, ok)
			}
		}
	}
}

func TestCallsAreRefusedInTheWordsOfTheContract(t *testing.T) {
	const ended = "has ended and cannot be reused."
	waiting := map[operation]string{
		opPrompt: "has an unfinished turn and must be continued before accepting a new prompt.",
		opSteer:  "has no running turn to steer.",
	}
	active := map[TurnState]map[operation]string{
		TurnStateIdle: {
			opContinue: "has no unfinished turn to continue.",
			opSuspend:  "has no unfinished turn to suspend.",
			opSteer:    "has no running turn to steer.",
		},
		TurnStateRunning: {
			opPrompt:   "already has a turn in progress.",
			opContinue: "already has a turn in progress.",
		},
		TurnStateAwaitingApproval: waiting,
		TurnStateAwaitingResult:   waiting,
		TurnStateSuspended:        waiting,
	}
	after := map[operation]string{
		opPrompt: ended, opContinue: ended, opSteer: ended, opCompact: ended, opHistory: ended,
		opSuspend: "is not active and cannot be suspended.",
		opDetach:  "is not active and cannot be detached.",
		opStop:    "is not active and cannot be stopped.",
	}
	for _, s := range allSessionStates {
		for _, turn := range allTurnStates {
			for op := range after {
				want := active[turn][op]
				if s != SessionStateActive {
					want = after[op]
				}
				err := allow("S", s, turn, op)
				switch {
				case want == "" && err != nil:
					t.Errorf("%s in %s/%s: %v", op, s, turn, err)
				case want != "" && (err == nil || err.Error() != "Harness session S "+want):
					t.Errorf("%s in %s/%s: %v, want %q", op, s, turn, err, want)
				case s != SessionStateActive && !errors.Is(err, ErrSessionEnded):
					t.Errorf("%s in %s/%s is not ErrSessionEnded", op, s, turn)
				}
			}
		}
	}
}

func TestAContinuedSessionBeginsWhereItsStateSays(t *testing.T) {
	approval, result := []PendingToolApproval{{}}, []PendingToolResult{{}}
	for _, c := range []struct {
		state *ContinueTurnState
		want  TurnState
	}{
		{nil, TurnStateIdle},
		{&ContinueTurnState{}, TurnStateSuspended},
		{&ContinueTurnState{PendingToolApprovals: approval}, TurnStateAwaitingApproval},
		{&ContinueTurnState{PendingToolResults: result}, TurnStateAwaitingResult},
		{&ContinueTurnState{PendingToolApprovals: approval, PendingToolResults: result}, TurnStateAwaitingApproval},
	} {
		if got := stateOf(c.state); got != c.want {
			t.Errorf("%+v begins %s, want %s", c.state, got, c.want)
		}
	}
}
