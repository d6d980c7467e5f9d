-- A queue of jobs in a table. A client inserts a job, then takes the oldest job that no other client has locked, in
-- alternation.

sysbench.cmdline.options = {
   table_size = {"Not used: every script is started with it", 0}
}

local con, inserts

function thread_init()
   con = sysbench.sql.driver():connect()
   inserts = sysbench.tid % 2 == 0
end

local function take()
   con:query("BEGIN")
   local rows = con:query("SELECT id FROM matrix.jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
   local job = rows.nrows > 0 and rows:fetch_row()[1]
   rows:free()
   if job then
      con:query("DELETE FROM matrix.jobs WHERE id = " .. job)
   end
   con:query("COMMIT")
end

function event()
   if inserts then
      con:query("INSERT INTO matrix.jobs (payload) VALUES ('" .. sysbench.rand.string("###########-###########") .. "')")
   else
      take()
   end
   inserts = not inserts
end

function thread_done()
   con:disconnect()
end
