// Package scripted is a model whose answers are written in the prompt: for tests of agents, for demonstrations and
// for measuring everything around a model. It needs no network, no key and no state, and serves any number of
// conversations at once.
//
// It comes in two forms that play the same steps: New returns a model.Model that lives in the process, NewHandler and
// Serve speak the Chat Completions, the OpenAI Responses, the Anthropic Messages and the Gemini wire to any client. The
// package owns the script grammar and the playing of steps. It runs no tools and checks no arguments.
//
// # Scripts
//
// A script stands anywhere in a user message, as a JSON array of steps:
//
//	any text @@[ {"text":"hi"}, {"tool":"bash","in":{"command":"ls"}}, {"text":"bye"} ]@@ any text
//
// The newest user message that holds a script is the anchor; in one message the last script counts. The number of
// assistant turns after the anchor picks the step: step 0 answers the prompt, step 1 the first tool results, and so
// on. Without an anchor the answer is "ok", past the last step "done", and a script that cannot be read is answered
// with "script error: …". A user message that holds $$sub$$ and no script plays Options.Sub; a tool call can hand it
// to another agent, since no script can hold another one.
//
//	text    string   the answer, streamed word by word
//	think   string   reasoning before the text
//	tool    string   call this tool …
//	in      any      … with these arguments
//	args    string   … or with exactly this text as arguments, valid or not
//	tools   [step]   several calls in one answer; each uses tool, in, args, ns and custom
//	ns      string   the call's namespace, on the Responses wire
//	custom  bool     the call takes a text (in as a string, or args), on the Responses wire
//	slow    int      milliseconds to wait after every streamed event
//	hang    int      seconds to wait before the answer begins
//	status  int      fail with this HTTP status …
//	times   int      … the first n times only, counted for each prompt and step; 0 is always
//	retryAfter int   … asking to wait these seconds
//	raw     string   send these bytes as the body
//	drop    bool     break the connection after the text
//	finish  string   this finish reason instead of stop or tool_calls
//	inTok, outTok, cachedTok int   the usage to report (100, 10 and none when absent)
//	noUsage bool     report no usage
//
// A second form, one line for load tests, makes many calls with few words:
//
//	SCRIPT: seq=10:read:{"path":"f.txt"} text=ok
//
// seq=N:tool:args are N turns of one call each, par=N:tool:args is one turn of N calls before them, text is the final
// answer, repeated tokens=N times, and delay=MS waits before every answer. Arguments hold no blank: write ␠ for one.
// Here the number of tool results after the anchor picks the turn.
//
// On the Responses wire stop and tool_calls are completed, length is incomplete with max_output_tokens, and any other
// finish is incomplete with that reason. Neighbouring items of the model are one turn. Requests are held to the service's
// rules: each call has its output, reasoning comes back unchanged and with the item behind it.
//
// On the Anthropic Messages wire stop is end_turn, tool_calls is tool_use, length is max_tokens and content_filter
// refusal; any other finish is sent as it stands. Reasoning is signed. Requests are held to the service's rules: results
// first and each once, reasoning unchanged, no empty texts, four cache marks.
//
// On the Gemini wire stop and tool_calls are STOP, length is MAX_TOKENS and content_filter SAFETY; any other finish is
// sent as it stands. Its calls are whole and the first of an answer is signed; arguments that are no object are sent as
// their text.
//
// # Summaries
//
// A request that forbids tools (tool choice none) is answered with the place where the script stands: how many
// answers and tool results came after the anchor, as @@skip=answers/results@@. When that text stands in the anchor's
// message, as a summary beside the task, the script goes on from there although the answers are gone.
//
// # Determinism
//
// An answer, its ids included, is a function of the conversation that is sent. Only times keeps a count, in the
// process.
package scripted
