-- row: 64
-- where: pod
-- expect: error
-- says: must be a text, not pod
log.info(pod)
