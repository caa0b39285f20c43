-- row: 60
-- where: nodes
-- expect: error
-- says: cannot be the name of a node
return { ['n1\0'] = 'failed' }
