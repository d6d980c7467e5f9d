-- Inserts one row into a table whose key is AUTO_INCREMENT.

sysbench.cmdline.options = {
   table_size = {"Upper end of the indexed column's values", 10000}
}

local INT, CHAR = sysbench.sql.type.INT, sysbench.sql.type.CHAR
local con, insert, k, c

function thread_init()
   con = sysbench.sql.driver():connect()
   insert = con:prepare("INSERT INTO matrix.inserted (k, c) VALUES (?, ?)")
   k = insert:bind_create(INT)
   c = insert:bind_create(CHAR, 120)
   insert:bind_param(k, c)
end

function event()
   k:set(sysbench.rand.uniform(1, sysbench.opt.table_size))
   c:set_rand_str("###########-###########-###########-###########-###########-###########")
   insert:execute()
end

function thread_done()
   insert:close()
   con:disconnect()
end
