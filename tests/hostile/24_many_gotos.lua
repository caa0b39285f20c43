-- row: 24
-- where: pod
-- expect: ok load memory instructions
--@ repeat 4000 goto done 
::done::
return fence.skip('alive')
