/* An audit plugin that counts the statements it sees end: the status variable Counting_audit_seen. */
#include <my_global.h>

#include <mysql/plugin.h>
#include <mysql/plugin_audit.h>

static volatile long long seen;

static void on_event(MYSQL_THD thd, unsigned int event_class, const void *event) {
  (void)thd;
  if (event_class == MYSQL_AUDIT_GENERAL_CLASS &&
      ((const struct mysql_event_general *)event)->event_subclass == MYSQL_AUDIT_GENERAL_STATUS)
    __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
}

static struct st_mysql_audit audit = {MYSQL_AUDIT_INTERFACE_VERSION, 0, on_event, {MYSQL_AUDIT_GENERAL_CLASSMASK}};
static struct st_mysql_show_var status[] = {{"Counting_audit_seen", (char *)&seen, SHOW_LONGLONG}, {0, 0, SHOW_UNDEF}};

maria_declare_plugin(counting_audit){MYSQL_AUDIT_PLUGIN,
                                     &audit,
                                     "counting_audit",
                                     "flifo's tests",
                                     "Counts statements",
                                     PLUGIN_LICENSE_GPL,
                                     0,
                                     0,
                                     1,
                                     status,
                                     0,
                                     "1",
                                     MariaDB_PLUGIN_MATURITY_STABLE} maria_declare_plugin_end;
