-- For wrk: POSTs the lines of the file $BODIES, one after the other, and prints a line of JSON.
local bodies = {}
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
local at = 0

function request()
  at = at % #bodies + 1
  return wrk.format("POST", nil, {["Content-Type"] = "application/json"}, bodies[at])
end

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('\n{"requests": %d, "seconds": %.6f, "failed": %d, "p50_ms": %.3f, "p99_ms": %.3f}\n',
    summary.requests, summary.duration / 1e6, failed, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
